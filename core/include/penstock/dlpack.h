/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches as DLPack tensors, which PyTorch, NumPy, CuPy, JAX and others take without a
 * copy (`from_dlpack`, by a capsule named "dltensor_versioned"). The structs are those of
 * DLPack 1 (github.com/dmlc/dlpack); whoever has its own header includes that first.
 */
#ifndef PENSTOCK_DLPACK_H
#define PENSTOCK_DLPACK_H

#include "penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_

enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 }; /* DLDeviceType */
enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2 };    /* DLDataTypeCode */
#define DLPACK_FLAG_BITMASK_READ_ONLY UINT64_C(1)

struct DLPackVersion {
  uint32_t major;
  uint32_t minor;
};

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void *data;
  struct DLDevice device;
  int32_t ndim;
  struct DLDataType dtype;
  int64_t *shape;   /* ndim elements */
  int64_t *strides; /* ndim elements, in elements of dtype */
  uint64_t byte_offset;
};

struct DLManagedTensorVersioned {
  struct DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  struct DLTensor dl_tensor;
};

PST_STATIC_ASSERT(sizeof(struct DLTensor) == 48, "DLPack 1");
PST_STATIC_ASSERT(sizeof(struct DLManagedTensorVersioned) == 80, "DLPack 1");

#endif

/* How many of n views, from the first, make one tensor: of one length, at equal strides no
 * shorter than that. Most batches of a staged path, or of lent slots, are one, or two where
 * the ring's end cuts one off; where a transport fills the slots itself, in an order of its
 * own, it may be one message a tensor. */
PST_EXPORT uint32_t pst_view_rows(const struct pst_view *views, uint32_t n);

/*
 * Hand n views of the last poll over as a tensor of bytes (uint8), shape [n, length],
 * strides [address from view to view, 1]; on kDLCPU, kDLCUDA or kDLCUDAHost as their memory
 * is, flagged read-only where they are lent by a sender. They are the tensor's then, and
 * go back when its deleter is called.
 *
 * native     the consumer's order of work (a CUstream). It waits on the device until the
 *            views are ready; after the deleter, they go back behind what is on it by the
 *            next poll. With NULL this call waits for them, and they go back at once.
 * device_id  the consumer's ordinal of the GPU, which core does not know; 0 for host memory
 *
 * The deleter may be called by any thread, and after the session has been closed; the data
 * is gone with the session. The other calls are the receiver's thread's.
 *
 * 0; -EINVAL: pst_view_rows() is less than n, n is 0, or the stream hands over frames; -ENOMEM.
 * Errors of the memory plugin are passed on.
 */
PST_EXPORT int pst_receiver_dlpack(struct pst_receiver *receiver, const struct pst_view *views,
                                   uint32_t n, void *native, int32_t device_id,
                                   struct DLManagedTensorVersioned **tensor);

#ifdef __cplusplus
}
#endif

#endif
