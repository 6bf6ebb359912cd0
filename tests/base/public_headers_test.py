#!/usr/bin/env python3
"""public_headers_test.py INCLUDE_FOLDER COMPILER...: each public C++ header, alone, names C++20 where
the compiler is told an older standard."""
import os
import re
import subprocess
import sys

folder, compiler = sys.argv[1], sys.argv[2:]
headers = sorted(os.path.relpath(os.path.join(where, name), folder)
                 for where, _, names in os.walk(os.path.join(folder, 'weft')) for name in names
                 if name.endswith('.hpp'))
wrong = []
for header in headers:
    done = subprocess.run([*compiler, '-std=c++17', '-E', '-Wfatal-errors', '-x', 'c++', '-I', folder, '-'],
                          input=f'#include <{header}>\n', capture_output=True, text=True,
                          check=False)
    first = re.search(r'error:.*', done.stderr)
    if done.returncode == 0 or not first or '-std=c++20' not in first[0]:
        wrong.append(f'{header}: {first[0] if first else "no error"}')
print('\n'.join(wrong) or f'{len(headers)} headers name C++20')
sys.exit(1 if wrong or not headers else 0)
