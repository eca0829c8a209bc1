import os
import sys
import tempfile

from pyflink.common import Encoder, Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from pyflink.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from pyflink.table import DataTypes

CITIES = 'Wien,48.2,1897000,"Austria"\n"Zürich, Stadt",47.4,421000,Switzerland\nGraz,47.1,,Austria\n'


def show(title, directory):
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found += [
                    f"{title} {name.startswith('cities-')} {name.endswith('.txt')} {line.rstrip()}" for line in file
                ]
    print("\n".join(sorted(found)))


def copy_lines(env, source, target):
    lines = env.from_source(
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), source).process_static_file_set().build(),
        WatermarkStrategy.no_watermarks(),
        "lines",
    )
    sink = (
        FileSink.for_row_format(target, Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder().with_part_prefix("cities-").with_part_suffix(".txt").build()
        )
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=1024**3))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    lines.map(lambda line: line.upper(), Types.STRING()).sink_to(sink)
    env.execute("copy lines")


def cities_by_country(env, source, target):
    schema = (
        CsvSchema.builder()
        .add_string_column("city")
        .add_number_column("latitude", number_type=DataTypes.DOUBLE())
        .add_string_column("people")
        .add_string_column("country")
        .build()
    )
    cities = env.from_source(
        FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), source).build(),
        WatermarkStrategy.no_watermarks(),
        "cities",
    )
    cities.map(lambda row: f"{row['city']} {row.people}", Types.STRING()).print("city")
    written = (
        CsvSchema.builder()
        .add_string_column("country")
        .add_number_column("cities", number_type=DataTypes.INT())
        .add_number_column("north", number_type=DataTypes.DOUBLE())
        .build()
    )
    north = Types.ROW_NAMED(["country", "cities", "north"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
    env.set_runtime_mode(env_mode())
    counted = (
        cities.map(lambda row: Row(row["country"], 1, row["latitude"]), north)
        .key_by(lambda row: row[0])
        .reduce(lambda a, b: Row(a[0], a[1] + b[1], max(a[2], b[2])))
    )
    counted.map(lambda row: row, north).sink_to(
        FileSink.for_bulk_format(target, CsvBulkWriters.for_schema(written)).build()
    )
    env.execute("cities by country")


def env_mode():
    from pyflink.datastream import RuntimeExecutionMode

    return RuntimeExecutionMode.BATCH


def main():
    with tempfile.TemporaryDirectory() as place:
        source = os.path.join(place, "in")
        os.makedirs(source)
        with open(os.path.join(source, "cities.csv"), "w", encoding="utf-8") as file:
            file.write(CITIES)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        copy_lines(env, source, os.path.join(place, "lines"))
        show("row", os.path.join(place, "lines"))
        cities_by_country(env, source, os.path.join(place, "csv"))
        show("bulk", os.path.join(place, "csv"))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
