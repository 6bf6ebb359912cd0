#!/usr/bin/env python3
"""tools/weft-profile/functions.py MPI_H: the functions of the header that are profiled, WEFT_PROFILED(name) each.

Left out are functions that do no work (conversions of handles, clocks, the tool interface), the
variadic one, and the functions that tool.cpp defines itself.
"""
import re
import sys

NAMES = re.findall(r'^int MPI_(\w+)\(', open(sys.argv[1], encoding='utf-8').read(), re.M)
OWN = {'Init', 'Init_thread', 'Finalize', 'Pcontrol'}
IDLE = re.compile(r'T_|Abi_|.*_(toint|fromint|c2f|f2c|f082c|c2f08|f082f|f2f08)$')
for name in sorted(set(NAMES) - OWN):
    if not IDLE.match(name):
        print(f'WEFT_PROFILED({name})')
