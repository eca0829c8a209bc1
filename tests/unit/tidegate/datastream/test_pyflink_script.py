"""A PyFlink script runs here after `pyflink` was replaced by `tidegate`, and nothing else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tidegate.datastream._graph.executor import PlanRecorded, PlanRecorder, installed

SCRIPT = """
import sys

from pyflink.common import Types, WatermarkStrategy, Encoder, Time, Duration, Row, Configuration
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (StreamExecutionEnvironment, RuntimeExecutionMode, KeyedProcessFunction, RuntimeContext,
                                OutputTag, ProcessWindowFunction, CheckpointingMode)
from pyflink.datastream.connectors.file_system import (FileSource, StreamFormat, FileSink, OutputFileConfig,
                                                       RollingPolicy)
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows, TimeWindow


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value[1])


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx: 'KeyedProcessFunction.Context'):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield OutputTag("seen", Types.STRING()), value[0]

    def on_timer(self, timestamp: int, ctx: 'KeyedProcessFunction.OnTimerContext'):
        yield Row(ctx.get_current_key(), self.count.value())


class Window(ProcessWindowFunction):
    def process(self, key, context: ProcessWindowFunction.Context[TimeWindow], elements):
        return [(key, context.window().start, len([e for e in elements]))]


def word_count(input_path, output_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    # write all the data to one file
    env.set_parallelism(1)
    env.enable_checkpointing(1000, CheckpointingMode.EXACTLY_ONCE)

    ds = env.from_source(
        source=FileSource.for_record_stream_format(StreamFormat.text_line_format(), input_path)
                         .process_static_file_set().build(),
        watermark_strategy=WatermarkStrategy.for_monotonous_timestamps(),
        source_name="file_source"
    )

    def split(line):
        yield from line.split()

    ds = ds.flat_map(split) \\
           .map(lambda i: (i, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()])) \\
           .key_by(lambda i: i[0]) \\
           .reduce(lambda i, j: (i[0], i[1] + j[1]))

    ds.sink_to(
        sink=FileSink.for_row_format(
            base_path=output_path,
            encoder=Encoder.simple_string_encoder())
        .with_output_file_config(
            OutputFileConfig.builder()
            .with_part_prefix("prefix")
            .with_part_suffix(".ext")
            .build())
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )

    timed = ds.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(FirstField()))
    counted = timed.key_by(lambda i: i[0], key_type=Types.STRING()) \\
        .process(Count(), output_type=Types.ROW([Types.STRING(), Types.LONG()])).uid("count")
    counted.get_side_output(OutputTag("seen", Types.STRING())).print()
    timed.key_by(lambda i: i[0]) \\
         .window(TumblingEventTimeWindows.of(Time.seconds(5))) \\
         .process(Window(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])) \\
         .print()
    env.from_source(NumberSequenceSource(1, 10), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()) \\
       .union(env.from_collection(collection=[1, 2], type_info=Types.LONG())).print()

    # submit for execution
    env.execute()


word_count(sys.argv[1], sys.argv[2])
"""


def test_script_builds_its_graph_after_one_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "input.txt").write_text("to be or not to be\n")
    job = tmp_path / "word_count.py"
    job.write_text(SCRIPT.replace("pyflink", "tidegate"))
    monkeypatch.setattr("sys.argv", [str(job), str(tmp_path / "input.txt"), str(tmp_path / "out")])
    recorder = PlanRecorder()
    with installed(recorder), pytest.raises(PlanRecorded):
        runpy.run_path(str(job), run_name="__main__")
    assert recorder.graph is not None
    assert [vertex.name for vertex in recorder.graph.vertices] == [
        "Source: file_source -> FlatMap -> Map",
        "Reduce -> (Map -> Sink: Sink, Timestamps/Watermarks)",
        "KEYED PROCESS -> Sink: Print to Std. Out",
        "TumblingEventTimeWindows -> Sink: Print to Std. Out",
        "Source: numbers",
        "Source: Collection Source",
        "Sink: Print to Std. Out",
        "Sink: Committer",
    ]
