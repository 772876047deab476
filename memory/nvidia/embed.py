# SPDX-License-Identifier: Apache-2.0
"""Write a file's bytes as a C array: embed.py IMAGE VERSION OUT."""
import sys

image, version, out = sys.argv[1:]
with open(image, 'rb') as file:
    data = file.read()
lines = [', '.join(map(str, data[at:at + 24])) for at in range(0, len(data), 24)]
with open(out, 'w') as file:
    file.write('/* Made by embed.py of kernels.cu. */\n'
               '__attribute__((aligned(16))) const unsigned char cuda_kernels_image[] = {\n'
               + ',\n'.join(lines) + '};\n'
               'const unsigned long cuda_kernels_length = sizeof(cuda_kernels_image);\n'
               f'const int cuda_kernels_version = {version};\n')
