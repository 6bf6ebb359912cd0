"""The validation graphs of a clone of ldbc/ldbc_graphalytics, as data sets.

Those of one algorithm are there as lists of neighbors without names, and all properties in another folder.
"""
import os
import shutil

from data_sets import ALGORITHMS

GRAPHS = 'graphalytics-validation/src/main/resources/validation-graphs'
PROPERTIES = 'config-template/graphs'


def is_clone(folder):
    """Whether the folder is such a clone."""
    return os.path.isdir(os.path.join(folder, GRAPHS)) and os.path.isdir(os.path.join(folder, PROPERTIES))


def write_data_sets(clone, folder):
    """Writes the data sets into the folder."""
    graphs = os.path.join(clone, GRAPHS)
    for directed, word, short in ((True, 'directed', 'dir'), (False, 'undirected', 'undir')):
        for name in os.listdir(os.path.join(graphs, 'example')):
            if name.startswith(f'example-{word}') and not name.endswith('-input'):
                shutil.copy(os.path.join(graphs, 'example', name), folder)
        names = [f'example-{word}']
        for algorithm in ALGORITHMS:
            name = f'test-{algorithm}-{word}'
            names.append(name)
            source, target = os.path.join(graphs, algorithm, short), os.path.join(folder, name)
            shutil.copy(source + '-output', f'{target}-{algorithm.upper()}')
            if os.path.exists(source + '-input.e'):
                for end in ('.v', '.e'):
                    shutil.copy(source + '-input' + end, target + end)
            else:
                _write_pair(source + '-input', directed, target)
        for name in names:
            shutil.copy(os.path.join(clone, PROPERTIES, name + '.properties'), folder)


def _write_pair(path, directed, target):
    vertices, edges = set(), set()
    with open(path, encoding='utf-8') as file:
        for line in file:
            words = [int(word) for word in line.partition('#')[0].split()]
            vertices.update(words)
            for neighbor in words[1:]:
                edge = (words[0], neighbor)
                edges.add(edge if directed else tuple(sorted(edge)))  # both ends list it
    with open(target + '.v', 'w', encoding='utf-8') as file:
        file.writelines(f'{vertex}\n' for vertex in sorted(vertices))
    with open(target + '.e', 'w', encoding='utf-8') as file:
        file.writelines(f'{source} {destination}\n' for source, destination in sorted(edges))
