"""Names of `pyflink.datastream.connectors`: PyFlink's builders over the connectors of `tidegate.connectors`."""
