import dataclasses
from collections import namedtuple

from pyflink.common import Types
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from shop_model import Basket, Size


class Item:
    def __init__(self, name, price):
        self.name = name
        self.price = price

    def __str__(self):
        return f"{self.name}={self.price}"


@dataclasses.dataclass(frozen=True, order=True)
class Customer:
    name: str
    size: Size


Order = namedtuple("Order", ["customer", "item"])
ORDERS = [
    Order(Customer("ann", Size.SMALL), Item("pen", 2)),
    Order(Customer("bob", Size.LARGE), Item("ink", 5)),
    Order(Customer("ann", Size.SMALL), Item("pad", 3)),
]


class Dearer(MapFunction):
    def map(self, value):
        assert isinstance(value, Order) and isinstance(value.item, Item), type(value)
        return Order(value.customer, Item(value.item.name, value.item.price * 2))


class Baskets(KeyedProcessFunction):
    def open(self, runtime_context):
        self.basket = runtime_context.get_state(ValueStateDescriptor("basket", Types.PICKLED_BYTE_ARRAY()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.PICKLED_BYTE_ARRAY()))
        self.sizes = runtime_context.get_map_state(
            MapStateDescriptor("sizes", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        basket = (self.basket.value() or Basket()).add(value.item)
        self.basket.update(basket)
        self.items.add(value.item)
        self.sizes.put(value.customer.size, value.customer)
        assert self.sizes.get(Size[value.customer.size.name]) == value.customer
        names = [item.name for item in self.items if isinstance(item, Item)]
        yield f"{value.customer.name} {value.customer.size.name} {basket} {names}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    orders = env.from_collection(ORDERS)
    doubled = orders.map(Dearer())
    doubled.key_by(lambda order: order.customer.name).process(Baskets(), Types.STRING()).print("baskets")
    doubled.map(lambda order: order.item).map(str, Types.STRING()).print("items")
    doubled.key_by(lambda order: order.customer).map(lambda order: (order.customer.name, 1)).key_by(
        lambda pair: Customer(pair[0], Size.LARGE)
    ).reduce(lambda a, b: (a[0], a[1] + b[1])).print("by object")
    doubled.key_by(lambda order: order.customer.size.name).reduce(
        lambda a, b: Order(a.customer, Item(a.item.name + b.item.name, a.item.price + b.item.price))
    ).map(lambda order: f"{order.customer.name} {order.item}", Types.STRING()).print("reduced")
    env.execute("own classes")

    for order in sorted(doubled.execute_and_collect(), key=lambda order: order.item.name):
        print("collected", isinstance(order, Order), isinstance(order.item, Item), order.customer, order.item)


if __name__ == "__main__":
    main()
