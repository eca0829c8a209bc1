"""What PyFlink's own tests of the DataStream API import (``pyflink.datastream.tests``)."""
