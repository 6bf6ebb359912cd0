#!/usr/bin/env python3
"""A shuffle through the object store: map tasks put, reduce tasks get.

    shuffle.py [--sockets A,B] [--maps M] [--reduces R] [--numbers N]

Sorts M x N random numbers: each map task cuts its own into R ranges and puts one object for each;
each reduce task gets its range of all map tasks, in whatever order they come, and sorts it. Tasks
are processes, at the stores of --sockets in turn; they do not know where an object is.
"""
import argparse
import multiprocessing
import os
import sys

import numpy

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../python"))
from weft.store import ObjectStore  # noqa: E402


def map_task(socket, run, task, options):
    store = ObjectStore(socket)
    numbers = numpy.random.default_rng(task).random(options.numbers)
    ranges = (numbers * options.reduces).astype(int)
    for part in range(options.reduces):
        store.put(f"{run}-m{task}-{part}", numbers[ranges == part])


def reduce_task(socket, run, part, options):
    store = ObjectStore(socket)
    missing = [f"{run}-m{task}-{part}" for task in range(options.maps)]
    parts = [numpy.frombuffer(view) for view in store.get_all(missing, timeout=60)]
    store.put(f"{run}-r{part}", numpy.sort(numpy.concatenate(parts)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sockets", default="")
    parser.add_argument("--maps", type=int, default=4)
    parser.add_argument("--reduces", type=int, default=3)
    parser.add_argument("--numbers", type=int, default=200_000)
    options = parser.parse_args()
    sockets = options.sockets.split(",") if options.sockets else [None]
    run = f"s{os.getpid()}"  # names of a run of their own
    tasks = [(reduce_task, i) for i in range(options.reduces)] + [(map_task, i) for i in range(options.maps)]
    processes = [multiprocessing.get_context("spawn").Process(
        target=task, args=(sockets[i % len(sockets)], run, number, options))
        for i, (task, number) in enumerate(tasks)]
    for process in processes:
        process.start()
    store = ObjectStore(sockets[0])
    results = [numpy.frombuffer(store.get(f"{run}-r{i}", timeout=60)) for i in range(options.reduces)]
    made = [numpy.random.default_rng(i).random(options.numbers) for i in range(options.maps)]
    assert numpy.array_equal(numpy.concatenate(results), numpy.sort(numpy.concatenate(made)))
    print(f"{options.maps} map and {options.reduces} reduce tasks at {len(sockets)} stores sorted them")


if __name__ == "__main__":
    main()
