"""Protobuf messages, generated from `proto/tidegate/pb/*.proto` by `proto/generate.py`. Never edited; CI checks that they are up to date."""
