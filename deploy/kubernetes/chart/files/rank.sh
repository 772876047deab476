# SPDX-License-Identifier: Apache-2.0
# One of two ranks that measure GPUDirect RDMA in both directions, over the secondary network.
set -eu
results=${RESULTS:-/results}/pairs.json
address=$(ip -4 -o address show dev "$INTERFACE" | awk '{print $4}' | cut -d/ -f1)
penstock bench --all-pairs --insecure --transport "$TRANSPORT" --memory cuda --path direct \
  --exchange "${EXCHANGE:-/exchange}" --rank "$JOB_COMPLETION_INDEX" --ranks 2 --wait 5min \
  --endpoint "address=$address,transport.device=$address" --size "$SIZE" --duration "$DURATION" \
  --json "$results"
[ "$GPUDIRECT" != any ] && [ "$JOB_COMPLETION_INDEX" = 0 ] || exit 0
if grep '"via":' "$results" | grep -v "\"$GPUDIRECT\""; then
  echo "between these nodes the adapter does not reach GPU memory by $GPUDIRECT" >&2
  exit 1
fi
