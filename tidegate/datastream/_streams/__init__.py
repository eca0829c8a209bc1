"""The streams behind `DataStream`: keyed, windowed, joined, connected, broadcast."""
