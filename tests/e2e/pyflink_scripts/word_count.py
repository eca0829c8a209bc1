import argparse
import logging
import sys

from pyflink.common import Types
from pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

TEXT = [
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
]


def word_count(mode):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(mode)
    env.set_parallelism(1)
    lines = env.from_collection(TEXT, type_info=Types.STRING())

    def split(line):
        yield from line.split()

    counts = (
        lines.flat_map(split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    counts.filter(lambda pair: pair[1] > 1).print()
    lines.map(len, output_type=Types.INT()).key_by(lambda _: 0).sum().print("letters")
    env.execute("word count")


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="BATCH")
    arguments, _ = parser.parse_known_args(sys.argv[1:])
    word_count(RuntimeExecutionMode[arguments.mode])
    word_count(RuntimeExecutionMode.STREAMING)
