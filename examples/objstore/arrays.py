#!/usr/bin/env python3
"""numpy arrays shared by the processes of a host without copies, and fetched by other hosts:

    arrays.py [--sockets A,B] [--rows N] [--workers N]

One process makes a matrix. Workers, which may be at other stores than it, each sum a band of its
rows in the store's own memory and put what they find. --sockets: the stores of the workers, in turn;
the first is the maker's.
"""
import argparse
import json
import multiprocessing
import os
import sys

import numpy

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../python"))
from weft.store import ObjectStore  # noqa: E402


def put_array(store, name, array):
    """One copy, into the store's memory; kind and shape are the object's metadata."""
    metadata = json.dumps([array.dtype.str, array.shape]).encode()
    with store.create(name, array.nbytes, len(metadata)) as buffer:
        numpy.frombuffer(buffer.data, array.dtype).reshape(array.shape)[...] = array
        buffer.metadata[:] = metadata


def get_array(store, name, timeout=None):
    """No copy: the array is the store's memory, read-only, and keeps the object as long as it lives."""
    (data, metadata), = store.get_with_metadata([name], timeout)
    kind, shape = json.loads(bytes(metadata))
    return numpy.frombuffer(data, kind).reshape(shape)


def work(socket, run, number, num_workers):
    store = ObjectStore(socket)
    matrix = get_array(store, f"{run}-matrix", timeout=60)  # waits until somebody puts it
    band = numpy.array_split(numpy.arange(len(matrix)), num_workers)[number]
    put_array(store, f"{run}-sums{number}", matrix[band[0]:band[-1] + 1].sum(axis=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sockets", default="")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    sockets = options.sockets.split(",") if options.sockets else [None]
    run = f"a{os.getpid()}"  # names of a run of their own
    processes = [multiprocessing.get_context("spawn").Process(
        target=work, args=(sockets[i % len(sockets)], run, i, options.workers))
        for i in range(options.workers)]
    for process in processes:
        process.start()
    store = ObjectStore(sockets[0])
    matrix = numpy.random.default_rng(1).random((options.rows, 1000))
    put_array(store, f"{run}-matrix", matrix)
    names = [f"{run}-sums{i}" for i in range(options.workers)]
    total = sum(get_array(store, name, timeout=60) for name in names)
    for process in processes:
        process.join()
    assert numpy.allclose(total, matrix.sum(axis=0))
    for name in [f"{run}-matrix", *names]:
        store.delete(name)
    print(f"{options.workers} workers at {len(sockets)} stores summed {matrix.nbytes >> 20} MiB")


if __name__ == "__main__":
    main()
