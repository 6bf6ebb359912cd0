#!/usr/bin/env python3
"""Writes the Fortran interfaces from functions.tsv and the constants of mpi.h, and those of mpi-ext.h.

  generate.py FUNCTIONS FUNCTIONS_EXT MPI_H MPI_EXT_H CALLBACKS OUTDIR

mpif.h          INTEGER constants and sentinels, valid in fixed and in free form
mpi.f90         the module mpi
mpi_f08.f90     the module mpi_f08
wrappers.inc    C++: the functions that both modules and mpif.h call; compiled for MPI_ and PMPI_
wrappers_f08.inc  C++: the functions that differ in mpi_f08: buffers and strings with descriptors,
                large counts
mpif-ext.h, mpi_ext.f90, mpi_f08_ext.f90, wrappers_ext.inc  the same of MPIX_ functions
"""
import os
import re
import sys
import textwrap

# Kind in the table: the handle's type in C, in mpi_f08.
HANDLES = {
    'comm': 'MPI_Comm', 'datatype': 'MPI_Datatype', 'request': 'MPI_Request', 'info': 'MPI_Info',
    'file': 'MPI_File', 'win': 'MPI_Win', 'op': 'MPI_Op', 'group': 'MPI_Group',
    'errhandler': 'MPI_Errhandler', 'session': 'MPI_Session', 'message': 'MPI_Message'}
C_INTEGERS = {'int': 'MPI_Fint', 'aint': 'MPI_Aint', 'count': 'MPI_Count', 'offset': 'MPI_Offset'}
F_INTEGERS = {'int': 'INTEGER', 'aint': 'INTEGER(KIND=MPI_ADDRESS_KIND)',
              'count': 'INTEGER(KIND=MPI_COUNT_KIND)', 'offset': 'INTEGER(KIND=MPI_OFFSET_KIND)'}
# As INTEGERs in Fortran, too.
INTEGER_LIKE = ('index', 'weights', 'errcodes')
SENTINELS = '/weft_sentinels/ MPI_BOTTOM, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC, MPI_UNWEIGHTED, ' \
    'MPI_WEIGHTS_EMPTY, MPI_ERRCODES_IGNORE, MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE'
STRING_SENTINELS = '/weft_argv_sentinels/ MPI_ARGV_NULL, MPI_ARGVS_NULL'
CALLBACKS = [name for kind in ('', 'COMM_', 'TYPE_', 'WIN_')
             for name in (f'MPI_{kind}NULL_COPY_FN', f'MPI_{kind}NULL_DELETE_FN', f'MPI_{kind}DUP_FN')
             ] + ['MPI_CONVERSION_FN_NULL']
# Where a count is one process's part of a buffer, a section's parts are no datatype's copies.
PER_PROCESS = re.compile(r'I?(neighbor_)?(all)?(gather|scatter|toall|reduce_scatter)|'
                         r'I?(all)?reduce|I?(ex)?scan|I?alltoall|Ineighbor|Psend|Precv', re.I)


class Argument:
    def __init__(self, text, large):
        name, kind, self.intent, *flags = text.split(':')
        match = re.fullmatch(r'(\w+)(?:\[(.*)\])?', name)
        self.name, self.length = match.group(1), match.group(2)
        if '|' in kind:
            kind = kind.split('|')[large]
        match = re.fullmatch(r'([\w-]+)(?:\((\w+)\))?', kind)
        self.kind, self.detail = match.groups()
        self.nointent = 'nointent' in flags
        self.later = 'async' in flags
        self.large = large and self.detail in ('MPI_User_function', 'MPI_Datarep_conversion_function')

    @property
    def is_array(self):
        return self.length is not None


class Function:
    def __init__(self, row, large):
        name, self.result, flags, arguments = row
        self.base = name
        self.large = large
        self.special = 'special' in flags
        self.arguments = [a for a in (Argument(text, large) for text in arguments.split())
                          if a.kind != '-']

    @property
    def name(self):
        return self.base + ('_c' if self.large else '')

    def has(self, *kinds):
        return any(a.kind in kinds for a in self.arguments)

    @property
    def binds_to_c(self):
        """True if the interface in mpi_f08 is one of C, where strings have descriptors. Procedures
        cannot be arguments there."""
        return not (self.special and self.has('string', 'strings', 'procedure'))

    @property
    def has_ierror(self):
        return self.result == 'ierror'


def read_functions(path):
    """The functions in their usual form, and those with large counts."""
    small, large = [], []
    with open(path, encoding='utf-8') as file:
        for line in file:
            if line.startswith('#'):
                continue
            row = line.rstrip('\n').split('\t')
            small.append(Function(row, False))
            if 'large' in row[2]:
                large.append(Function(row, True))
    return small, large


def read_constants(path):
    """(name, handle type or None, value) of the integers and handles in mpi.h."""
    values, constants = {}, []
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'\\\n', ' ', file.read())
    for name, value in re.findall(r'^#define (MPIX?_\w+) +(\S.*?)\s*(?:/\*.*)?$', text, re.M):
        if name.startswith(('MPI_T_', 'MPI_F_')):
            continue
        handle = None
        if value in values:
            handle, number = values[value]
        else:
            match = re.fullmatch(r'\(?(?:\((MPI_\w+)\))?\(?(-?(?:0x)?[0-9a-fA-F]+)\)?\)?', value)
            if not match:
                continue
            handle, number = match.group(1), int(match.group(2), 0)
        if handle is not None and handle not in HANDLES.values() and handle != 'MPI_Offset':
            continue
        values[name] = (handle, number)
        constants.append((name, handle, number))
    return constants


# Fortran.

def wrapped(text, indent='  '):
    """Free form lines of at most 100 columns, continued with &."""
    lines = textwrap.wrap(text, 96, initial_indent=indent, subsequent_indent=indent + '    ',
                          break_long_words=False, break_on_hyphens=False)
    return ' &\n'.join(lines) + '\n'


KINDS = [('MPI_ADDRESS_KIND', 8), ('MPI_COUNT_KIND', 8), ('MPI_OFFSET_KIND', 8),
         ('MPI_INTEGER_KIND', 4), ('MPI_STATUS_SIZE', 8), ('MPI_SOURCE', 1), ('MPI_TAG', 2),
         ('MPI_ERROR', 3)]


def subarrays(value):
    return [('MPI_SUBARRAYS_SUPPORTED', value), ('MPI_ASYNC_PROTECTS_NONBLOCKING', value)]


def write_mpif(constants, out):
    """Lines from column 7 to 72 without continuation are both fixed and free form."""
    line = '      {}\n'.format
    out.write('! Constants and sentinels of MPI, in fixed and in free form.\n')
    for name, value in KINDS:
        out.write(line(f'INTEGER {name}'))
        out.write(line(f'PARAMETER ({name}={value})'))
    for name, value in subarrays('.FALSE.'):
        out.write(line(f'LOGICAL {name}'))
        out.write(line(f'PARAMETER ({name}={value})'))
    for name, handle, value in constants:
        kind = 'INTEGER(KIND=MPI_OFFSET_KIND)' if handle == 'MPI_Offset' else 'INTEGER'
        out.write(line(f'{kind} {name}'))
        out.write(line(f'PARAMETER ({name}={value})'))
    for name in ('MPI_BOTTOM', 'MPI_IN_PLACE', 'MPI_BUFFER_AUTOMATIC', 'MPI_UNWEIGHTED(1)',
                 'MPI_WEIGHTS_EMPTY(1)', 'MPI_ERRCODES_IGNORE(1)',
                 'MPI_STATUS_IGNORE(MPI_STATUS_SIZE)', 'MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)'):
        out.write(line(f'INTEGER {name}'))
    out.write(line('CHARACTER*1 MPI_ARGV_NULL(1)'))
    out.write(line('CHARACTER*1 MPI_ARGVS_NULL(1,1)'))
    for block in (SENTINELS, STRING_SENTINELS):
        label, names = block[1:].split('/ ')
        for name in names.split(', '):  # One name a line: a block goes on where it is named again.
            out.write(line(f'COMMON /{label}/ {name}'))
    for name in CALLBACKS:
        out.write(line(f'EXTERNAL {name}'))
    for prefix in ('MPI', 'PMPI'):
        for name in ('WTIME', 'WTICK'):
            out.write(line(f'DOUBLE PRECISION {prefix}_{name}'))
            out.write(line(f'EXTERNAL {prefix}_{name}'))
        for name in ('AINT_ADD', 'AINT_DIFF'):
            out.write(line(f'INTEGER(KIND=MPI_ADDRESS_KIND) {prefix}_{name}'))
            out.write(line(f'EXTERNAL {prefix}_{name}'))


def dimension(argument, status=False):
    if argument.length is None:
        return '(MPI_STATUS_SIZE)' if status else ''
    if argument.length == '3,n':
        return '(3, *)'
    return '(MPI_STATUS_SIZE, *)' if status else '(*)'


def declare_mpi(argument):
    """Declarations of an argument in the module mpi."""
    a = argument
    if a.kind in ('choice', 'detached'):
        return [f'!GCC$ ATTRIBUTES NO_ARG_CHECK :: {a.name}', f'!DIR$ IGNORE_TKR {a.name}',
                f'TYPE(*), DIMENSION(*) :: {a.name}']
    if a.kind in HANDLES or a.kind in INTEGER_LIKE:
        return [f'INTEGER :: {a.name}{dimension(a)}']
    if a.kind in ('status', 'fstatus'):
        return [f'INTEGER :: {a.name}{dimension(a, True)}']
    if a.kind in ('logical', 'rawlogical'):
        return [f'LOGICAL :: {a.name}{dimension(a)}']
    if a.kind == 'string':
        return [f'CHARACTER(LEN=*) :: {a.name}']
    if a.kind == 'strings':
        return [f'CHARACTER(LEN=*) :: {a.name}({"count, *" if a.name == "array_of_argv" else "*"})']
    if a.kind == 'procedure':
        return [f'EXTERNAL :: {a.name}']
    if a.kind == 'address':
        return [f'INTEGER(KIND=MPI_ADDRESS_KIND) :: {a.name}']
    return [f'{F_INTEGERS[a.kind]} :: {a.name}{dimension(a)}']


def intent_f08(argument):
    return '' if argument.nointent else f', INTENT({argument.intent.upper()})'


def declare_f08(argument):
    a = argument
    intent = intent_f08(a)
    later = ', ASYNCHRONOUS' if a.later else ''
    if a.kind == 'choice':
        kept = intent if a.intent == 'in' else ''
        return [f'TYPE(*), DIMENSION(..){kept}{later} :: {a.name}']
    if a.kind == 'procedure':
        return [f'PROCEDURE({a.detail}{"_c" * a.large}) :: {a.name}']
    if a.kind in HANDLES:
        kind = f'TYPE({HANDLES[a.kind]})'
    elif a.kind == 'status':
        # MPI_STATUS_IGNORE must be able to stand for one.
        kind, intent = 'TYPE(MPI_Status)', '' if a.intent == 'out' else intent
    elif a.kind == 'fstatus':
        return [f'INTEGER{intent} :: {a.name}(MPI_STATUS_SIZE)']
    elif a.kind in ('logical', 'rawlogical'):
        kind = 'LOGICAL'
    elif a.kind == 'string':
        kind = 'CHARACTER(LEN=*)'
    elif a.kind == 'strings':
        shape = 'count, *' if a.name == 'array_of_argv' else '*'
        return [f'CHARACTER(LEN=*), INTENT(IN) :: {a.name}({shape})']
    elif a.kind in ('address', 'detached'):
        kind = 'TYPE(C_PTR)'
    else:
        kind = F_INTEGERS['int' if a.kind in INTEGER_LIKE else a.kind]
    return [f'{kind}{intent}{later} :: {a.name}{dimension(a)}']


RESULTS = {'double': 'DOUBLE PRECISION', 'aint': 'INTEGER(KIND=MPI_ADDRESS_KIND)'}


def write_procedure(out, function, name, declare, binding='', f08=False, address='', indent='    '):
    """An interface body. `address` replaces the type of addresses in the module mpi."""
    names = [a.name for a in function.arguments] + (['ierror'] if function.has_ierror else [])
    suffix = f' BIND(C, NAME="{binding}")' if binding else ''
    word = 'FUNCTION' if function.result in RESULTS else 'SUBROUTINE'
    if word == 'FUNCTION':
        suffix += ' RESULT(weft_result)'
    out.write(wrapped(f'{word} {name}({", ".join(names)}){suffix}', indent))
    out.write(f'{indent}  IMPORT\n{indent}  IMPLICIT NONE\n')
    if word == 'FUNCTION':
        out.write(f'{indent}  {RESULTS[function.result]} :: weft_result\n')
    # Lengths first: other arguments may need them.
    for argument in sorted(function.arguments, key=lambda a: a.name != 'count'):
        for text in declare(argument):
            if address and argument.kind == 'address':
                text = f'{address} :: {argument.name}'
            out.write(text + '\n' if text.startswith('!') else wrapped(text, indent + '  '))
    if function.has_ierror:
        out.write(f'{indent}  INTEGER{", OPTIONAL, INTENT(OUT)" if f08 else ""} :: ierror\n')
    out.write(f'{indent}END {word} {name}\n')


def write_constants(out, constants, f08):
    for name, value in KINDS:
        if not (f08 and name in ('MPI_SOURCE', 'MPI_TAG', 'MPI_ERROR')):
            out.write(f'  INTEGER, PARAMETER :: {name} = {value}\n')
    for name, value in subarrays('.TRUE.' if f08 else '.FALSE.'):
        out.write(f'  LOGICAL, PARAMETER :: {name} = {value}\n')
    if f08:
        out.write('  INTEGER, PARAMETER :: MPI_F_SOURCE = 1, MPI_F_TAG = 2, MPI_F_ERROR = 3\n')
        for kind in HANDLES.values():
            out.write(f'  TYPE, BIND(C) :: {kind}\n    INTEGER :: MPI_VAL\n  END TYPE {kind}\n')
        out.write('  TYPE, BIND(C) :: MPI_Status\n    INTEGER :: MPI_SOURCE, MPI_TAG, MPI_ERROR\n'
                  '    INTEGER, PRIVATE :: internal(5)\n  END TYPE MPI_Status\n')
    for name, handle, value in constants:
        if handle == 'MPI_Offset':
            out.write(f'  INTEGER(KIND=MPI_OFFSET_KIND), PARAMETER :: {name} = {value}\n')
        elif handle is None or not f08:
            out.write(f'  INTEGER, PARAMETER :: {name} = {value}\n')
        else:
            out.write(f'  TYPE({handle}), PARAMETER :: {name} = {handle}({value})\n')
    status = 'TYPE(MPI_Status)' if f08 else 'INTEGER'
    one, many = ('', '(1)') if f08 else ('(MPI_STATUS_SIZE)', '(MPI_STATUS_SIZE, 1)')
    out.write('  INTEGER, TARGET :: MPI_BOTTOM, MPI_IN_PLACE, MPI_BUFFER_AUTOMATIC\n'
              '  INTEGER, TARGET :: MPI_UNWEIGHTED(1), MPI_WEIGHTS_EMPTY(1), '
              'MPI_ERRCODES_IGNORE(1)\n'
              f'  {status}, TARGET :: MPI_STATUS_IGNORE{one}, MPI_STATUSES_IGNORE{many}\n'
              '  CHARACTER(LEN=1), TARGET :: MPI_ARGV_NULL(1), MPI_ARGVS_NULL(1, 1)\n')
    out.write(wrapped('COMMON ' + SENTINELS) + wrapped('COMMON ' + STRING_SENTINELS))


def write_mpi(functions, constants, out):
    out.write('! The module mpi.\nMODULE mpi\n  USE, INTRINSIC :: ISO_C_BINDING, ONLY: C_PTR\n'
              '  IMPLICIT NONE\n  PRIVATE :: C_PTR\n')
    write_constants(out, constants, False)
    for name in CALLBACKS:
        out.write(f'  EXTERNAL :: {name}\n')
    for function in functions:
        for prefix in ('MPI', 'PMPI'):
            name = f'{prefix}_{function.name}'
            symbol = f'{prefix}_{function.name}'.lower()
            out.write(f'  INTERFACE {name}\n' if function.has('address') else '  INTERFACE\n')
            if function.base == 'Sizeof':
                write_procedure(out, function, name, declare_f08, symbol + '_f08ts_')
            else:
                write_procedure(out, function, name, declare_mpi)
            if function.has('address'):
                write_procedure(out, function, name + '_cptr', declare_mpi, symbol + '_cptr_',
                                address='TYPE(C_PTR)')
            out.write('  END INTERFACE\n')
    out.write('END MODULE mpi\n')


def is_apart(function):
    """True if mpi_f08 needs another C function than the module mpi."""
    return function.has('choice', 'string', 'detached')


def look_alike(small, large):
    """True if a generic interface could not distinguish the forms: all its kinds of integers but
    INTEGER are one kind."""
    def kinds(function):
        return [('wide' if a.kind in ('aint', 'count', 'offset') else a.kind, a.is_array)
                for a in function.arguments]
    return kinds(small) == kinds(large)


def write_f08(functions, large, constants, callbacks, out):
    out.write('! The module mpi_f08.\nMODULE mpi_f08\n'
              '  USE, INTRINSIC :: ISO_C_BINDING, ONLY: C_PTR\n  IMPLICIT NONE\n'
              '  PRIVATE :: C_PTR\n')
    for kind in HANDLES.values():
        out.write(f'  PRIVATE :: equal_{kind.lower()}, differ_{kind.lower()}\n')
    write_constants(out, constants, True)
    with open(callbacks, encoding='utf-8') as file:
        out.write(file.read())
    larges = {f.base: f for f in large}
    for function in functions:
        if function.base in ('Attr_get', 'Attr_put', 'Attr_delete', 'Keyval_create', 'Keyval_free'):
            continue
        for prefix in ('MPI', 'PMPI'):
            forms = [function] + ([larges[function.base]] if function.base in larges else [])
            apart = len(forms) == 2 and look_alike(*forms)
            for number, form in enumerate(forms):
                if number == 0 or apart:
                    out.write(f'  INTERFACE {prefix}_{form.name}\n')
                ending = '_f08ts' if form.has('choice') else '_f08'
                name = f'{prefix}_{form.name}{ending}'
                write_procedure(out, form, name, declare_f08,
                                name.lower() + '_' if form.binds_to_c else '', f08=True)
                if apart or number == len(forms) - 1:
                    out.write('  END INTERFACE\n')
    for operator, word in (('==', 'equal'), ('/=', 'differ')):
        out.write(f'  INTERFACE OPERATOR({operator})\n')
        for kind in HANDLES.values():
            out.write(f'    MODULE PROCEDURE {word}_{kind.lower()}\n')
        out.write('  END INTERFACE\n')
    out.write('CONTAINS\n')
    for operator, word in (('==', 'equal'), ('/=', 'differ')):
        for kind in HANDLES.values():
            name = f'{word}_{kind.lower()}'
            out.write(f'  ELEMENTAL LOGICAL FUNCTION {name}(a, b)\n'
                      f'    TYPE({kind}), INTENT(IN) :: a, b\n'
                      f'    {name} = a%MPI_VAL {operator} b%MPI_VAL\n  END FUNCTION {name}\n')
    out.write('END MODULE mpi_f08\n')


def write_ext(functions, constants, f08, out):
    base = 'mpi_f08' if f08 else 'mpi'
    out.write(f'! The module {base}_ext: what {base} has not, but mpi-ext.h.\n'
              f'MODULE {base}_ext\n  USE {base}\n  IMPLICIT NONE\n')
    for name, _, value in constants:
        out.write(f'  INTEGER, PARAMETER :: {name} = {value}\n')
    for function in functions:
        for prefix in ('MPIX', 'PMPIX'):
            name = f'{prefix}_{function.name}'
            out.write(f'  INTERFACE {name}\n' if f08 else '  INTERFACE\n')
            if f08:
                write_procedure(out, function, name + '_f08', declare_f08, name.lower() + '_f08_',
                                f08=True)
            else:
                write_procedure(out, function, name, declare_mpi)
            out.write('  END INTERFACE\n')
    out.write(f'END MODULE {base}_ext\n')


# C++.

def section_pair(function, position):
    """The count and the datatype of a buffer that is used after the call, or none."""
    arguments = function.arguments
    if PER_PROCESS.match(function.base) or position + 2 >= len(arguments):
        return None
    count, datatype = arguments[position + 1:position + 3]
    if count.kind in ('int', 'count') and datatype.kind == 'datatype' and not count.is_array:
        return count.name, datatype.name
    return None


ADDRESS_ONLY = re.compile(r'Win_create|Win_attach|Win_detach|(\w+_)?[Bb]uffer_attach|Get_address|'
                          r'Free_mem|F_sync_reg|File_\w+_end|Comm_attach|Session_attach')


class Body:
    """The C++ of one function, in one form."""

    def __init__(self, function, f08):
        self.function, self.f08 = function, f08
        self.parameters, self.hidden, self.before, self.after = [], [], [], []
        self.values = {}
        self.checks = []

    def choice(self, position, a):
        if not self.f08:
            self.parameters.append(f'void* {a.name}')
            self.values[a.name] = f'translate({a.name})'
            return
        self.parameters.append(f'CFI_cdesc_t* {a.name}')
        function = self.function
        later = any(x.later for x in function.arguments if x.kind == 'choice')
        if ADDRESS_ONLY.match(function.base):
            self.values[a.name] = f'translate({a.name}->base_addr)'
            return
        if not later:
            copies = 'false' if a.intent == 'in' else 'true'
            self.before.append(f'CopiedSection {a.name}_c({a.name}, {copies});')
            self.after.append(f'{a.name}_c.store();')
        else:
            pair = section_pair(function, position)
            if pair is None:
                self.before.append(f'const WholeBuffer {a.name}_c({a.name});')
            else:
                count, datatype = pair
                self.before.append(f'const TypedSection {a.name}_c({a.name}, *{count}, *{datatype});')
                self.values[count] = f'{a.name}_c.count(*{count})'
                self.values[datatype] = f'{a.name}_c.datatype(*{datatype})'
        self.checks.append(f'{a.name}_c')
        self.values[a.name] = f'{a.name}_c.address()'

    def handle(self, a):
        kind = HANDLES[a.kind]
        self.parameters.append(f'MPI_Fint* {a.name}')
        if a.name in self.values:
            return
        if a.is_array:
            length = f'*{a.length}' if a.length not in ('group', 'outdegree', 'indegree') else \
                f'num_{a.length}(to_c<MPI_Comm>(*comm))'
            if a.length in ('group', 'outdegree', 'indegree') and a.name == 'sendtypes':
                buffer = 'sendbuf->base_addr' if self.f08 else 'sendbuf'
                length = f'is_in_place({buffer}) ? 0 : {length}'
            self.before.append(f'HandleArray<{kind}> {a.name}_c({a.name}, {length}, '
                               f'{"false" if a.intent == "out" else "true"});')
            self.checks.append(f'{a.name}_c')
            self.values[a.name] = f'{a.name}_c.data()'
            if a.intent != 'in':
                self.after.append(f'{a.name}_c.store({a.name});')
        elif a.intent == 'in':
            self.values[a.name] = f'to_c<{kind}>(*{a.name})'
        else:
            start = f'to_c<{kind}>(*{a.name})' if a.intent == 'inout' else 'nullptr'
            self.before.append(f'{kind} {a.name}_c = {start};')
            self.values[a.name] = f'&{a.name}_c'
            condition = '' if a.intent == 'inout' else 'if (code == MPI_SUCCESS) '
            self.after.append(f'{condition}*{a.name} = to_fortran({a.name}_c);')

    def string(self, a):
        if self.f08:
            self.parameters.append(f'CFI_cdesc_t* {a.name}_d')
            self.before.append(f'char* {a.name} = static_cast<char*>({a.name}_d->base_addr);')
            self.before.append(f'const std::size_t {a.name}_len = {a.name}_d->elem_len;')
        else:
            self.parameters.append(f'char* {a.name}')
            self.hidden.append(f'std::size_t {a.name}_len')
        if a.intent == 'in':
            leading = 'true' if a.name in ('key', 'value') else 'false'
            self.before.append(f'const InString {a.name}_c({a.name}, {a.name}_len, {leading});')
            self.values[a.name] = f'{a.name}_c.data()'
        else:
            limit = '*valuelen' if a.detail == 'valuelen' else a.detail
            self.before.append(f'OutString {a.name}_c({limit});')
            self.values[a.name] = f'{a.name}_c.data()'
            condition = 'code == MPI_SUCCESS' + (' && *flag' if self.function.has('logical') else '')
            self.after.append(f'if ({condition}) {a.name}_c.store({a.name}, {a.name}_len);')
        self.checks.append(f'{a.name}_c')

    def argument(self, position, a):
        if a.kind == 'choice':
            self.choice(position, a)
        elif a.kind in HANDLES:
            self.handle(a)
        elif a.kind == 'string':
            self.string(a)
        elif a.kind in ('status', 'weights', 'errcodes'):
            self.parameters.append(f'MPI_Fint* {a.name}')
            pointer = 'MPI_Status*' if a.kind == 'status' else 'MPI_Fint*'
            self.values[a.name] = f'static_cast<{pointer}>(translate({a.name}))'
        elif a.kind == 'index':
            self.parameters.append(f'MPI_Fint* {a.name}')
            self.values[a.name] = a.name
            count = '*outcount' if a.is_array else '1'
            self.after.append(f'if (has_results(code)) count_from_one({a.name}, {count});')
        elif a.kind == 'detached' and not self.f08:
            # Of any type there, and left alone (MPI 5.0, 3.6).
            self.parameters.append('void*')
            self.before.append(f'void* {a.name} = nullptr;')
            self.values[a.name] = f'&{a.name}'
        elif a.kind in ('address', 'detached'):
            self.parameters.append(f'void** {a.name}')
            self.values[a.name] = a.name
        elif a.kind == 'rawlogical':
            self.parameters.append(f'MPI_Fint* {a.name}')
            self.values[a.name] = a.name
        else:
            kind = 'MPI_Fint' if a.kind == 'logical' else C_INTEGERS[a.kind]
            self.parameters.append(f'{kind}* {a.name}')
            if a.name in self.values:
                pass
            elif a.length == '3,n':
                self.values[a.name] = f'reinterpret_cast<MPI_Fint(*)[3]>({a.name})'
            else:
                self.values[a.name] = a.name if a.is_array or a.intent != 'in' else f'*{a.name}'

    def write(self, out):
        function = self.function
        for position, a in enumerate(function.arguments):
            self.argument(position, a)
        values = [self.values[a.name] for a in function.arguments]
        ending = ('_f08ts' if function.has('choice') else '_f08') if self.f08 else ''
        name = f'WEFT_FORTRAN({function.name.lower()}{ending})'
        if function.result in ('double', 'aint'):
            kind = 'double' if function.result == 'double' else 'MPI_Aint'
            out.write(f'extern "C" {kind} {name}({", ".join(self.parameters)}) {{\n'
                      f'  return WEFT_C({function.name})({", ".join(values)});\n}}\n')
            return
        parameters = ', '.join(self.parameters + ['MPI_Fint* ierror'] + self.hidden)
        out.write(f'extern "C" void {name}({parameters}) {{\n')
        for text in self.before:
            out.write(f'  {text}\n')
        for text in self.checks:
            out.write(f'  if (!{text}.is_valid()) [[unlikely]] '
                      f'return refuse({text}.error(), ierror);\n')
        out.write(f'  const int code = WEFT_C({function.name})({", ".join(values)});\n')
        for text in self.after:
            out.write(f'  {text}\n')
        out.write('  if (ierror != nullptr) *ierror = code;\n}\n')


def write_wrappers(functions, large, out, out_f08):
    for function in functions:
        lower = function.name.lower()
        if function.has('address'):
            out.write(f'WEFT_SAME({lower}, {lower}_cptr)\n')
        if function.special:
            if not function.has('choice'):
                out.write(f'WEFT_SAME({lower}, {lower}_f08)\n')
            continue
        Body(function, False).write(out)
        if is_apart(function):
            Body(function, True).write(out_f08)
        else:
            out.write(f'WEFT_SAME({lower}, {lower}_f08)\n')
    for function in large:
        if not function.special:
            Body(function, True).write(out_f08)


def main():
    functions_path, ext_path, header, ext_header, callbacks, directory = sys.argv[1:]
    functions, large = read_functions(functions_path)
    constants = read_constants(header)
    ext_functions, _ = read_functions(ext_path)
    ext_constants = [row for row in read_constants(ext_header) if row[0].startswith('MPIX_ERR_')]

    def open_out(name):
        return open(os.path.join(directory, name), 'w', encoding='utf-8')
    with open_out('mpif.h') as out:
        write_mpif(constants, out)
    with open_out('mpi.f90') as out:
        write_mpi(functions, constants, out)
    with open_out('mpi_f08.f90') as out:
        write_f08(functions, large, constants, callbacks, out)
    with open_out('wrappers.inc') as out, open_out('wrappers_f08.inc') as out_f08:
        write_wrappers(functions, large, out, out_f08)
    with open_out('mpif-ext.h') as out:
        for name, _, value in ext_constants:
            out.write(f'      INTEGER {name}\n      PARAMETER ({name}={value})\n')
    for name, f08 in (('mpi_ext.f90', False), ('mpi_f08_ext.f90', True)):
        with open_out(name) as out:
            write_ext(ext_functions, ext_constants, f08, out)
    with open_out('wrappers_ext.inc') as out:
        write_wrappers(ext_functions, [], out, None)


if __name__ == '__main__':
    main()
