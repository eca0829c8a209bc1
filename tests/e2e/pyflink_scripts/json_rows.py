import json

from pyflink.common import Row, Types
from pyflink.datastream import FilterFunction, FlatMapFunction, MapFunction, StreamExecutionEnvironment

EVENTS = [
    '{"id": 1, "user": {"name": "Ann", "tags": ["a", "b"]}, "price": 2.5, "at": {"lat": 1, "lon": 2}}',
    '{"id": 2, "user": {"name": "Bob", "tags": []}, "price": 10, "at": null}',
    "not json at all",
    '{"id": 3, "user": {"name": "Çelik", "tags": ["b"]}, "price": 0.1, "at": {"lat": -4, "lon": 0}}',
]
PLACE = Types.ROW_NAMED(["lat", "lon"], [Types.INT(), Types.INT()])
EVENT = Types.ROW_NAMED(
    ["id", "name", "tags", "price", "at", "extra"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.LIST(Types.STRING()),
        Types.DOUBLE(),
        PLACE,
        Types.MAP(Types.STRING(), Types.STRING()),
    ],
)


class Parse(FlatMapFunction):
    def flat_map(self, value):
        try:
            found = json.loads(value)
        except json.JSONDecodeError:
            return
        at = found["at"]
        yield Row(
            id=found["id"],
            name=found["user"]["name"],
            tags=found["user"]["tags"],
            price=float(found["price"]),
            at=None if at is None else Row(lat=at["lat"], lon=at["lon"]),
            extra={"source": "web"},
        )


class Tagged(FilterFunction):
    def filter(self, value):
        return bool(value.tags)


class Rename(MapFunction):
    def map(self, value):
        changed = value.as_dict(recursive=True)
        changed["name"] = changed["name"].upper()
        return json.dumps(changed, sort_keys=True, ensure_ascii=False)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    events = env.from_collection(EVENTS, Types.STRING()).flat_map(Parse(), EVENT)
    events.print("row")
    events.filter(Tagged()).map(Rename(), Types.STRING()).print("json")
    events.map(
        lambda event: Row(event["id"], event.at.lat if event.at else None), Types.ROW([Types.LONG(), Types.INT()])
    ).print("place")
    events.map(lambda event: (event.name, len(event)), Types.TUPLE([Types.STRING(), Types.INT()])).key_by(
        lambda pair: pair[1]
    ).max_by(0).print("last by name")
    env.execute("json rows")


main()
