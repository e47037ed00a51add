"""spark-submit spark_apps/export.py --export flights_lake: writes a stream into the table of a lake."""

import sys

from relaybox.spark.export_application import main

if __name__ == "__main__":
    sys.exit(main())
