import asyncio

from pyflink.common import Time, Types
from pyflink.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Lookup(AsyncFunction[tuple, tuple]):
    async def async_invoke(self, value):
        await asyncio.sleep(0.001 * (value[0] % 3))
        return [(value[0], f"user-{value[0]}")]

    def timeout(self, value):
        return [(value[0], "?")]


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    ids = env.from_collection([(number,) for number in range(8)], Types.TUPLE([Types.INT()]))

    found = AsyncDataStream.unordered_wait(ids, Lookup(), Time.seconds(10), 100, pair)
    with found.execute_and_collect("unordered") as results:
        print("unordered", sorted(results))

    ordered = AsyncDataStream.ordered_wait(ids, Lookup(), Time.seconds(10), 2, pair)
    print("ordered", list(ordered.execute_and_collect()))

    first = ids.map(lambda row: row[0] * 10, Types.INT()).execute_and_collect(limit=3)
    print("limit", type(first).__name__, len(first))

    ids.map(lambda row: row[0] + 0.5, Types.FLOAT()).filter(lambda number: number > 6).print("float")
    client = env.execute_async("asynchronous")
    result = client.get_job_execution_result().result()
    print("finished", str(result.get_job_id()) == str(client.get_job_id()))


if __name__ == "__main__":
    main()
