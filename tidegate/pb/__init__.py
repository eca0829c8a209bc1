"""Generated from `proto/tidegate/pb/*.proto` by `proto/generate.py`. Never edited; CI proves that it is up to date."""
