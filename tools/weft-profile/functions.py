#!/usr/bin/env python3
"""tools/weft-profile/functions.py MACRO MPI_H MPI_EXT_H: the functions of the headers that a tool takes
over, MACRO(name) each.

Left out are functions that do no work (conversions of handles, clocks, the tool interface), the
variadic one, and the functions that the tools define themselves.
"""
import re
import sys

NAMES = [name for path in sys.argv[2:]
         for name in re.findall(r'^int (MPIX?_\w+)\(', open(path, encoding='utf-8').read(), re.M)]
OWN = {'MPI_Init', 'MPI_Init_thread', 'MPI_Finalize', 'MPI_Pcontrol'}
IDLE = re.compile(r'MPI_T_|MPI_Abi_|.*_(toint|fromint|c2f|f2c|f082c|c2f08|f082f|f2f08)$')
for name in sorted(set(NAMES) - OWN):
    if not IDLE.match(name):
        print(f'{sys.argv[1]}({name})')
