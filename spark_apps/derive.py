"""spark-submit spark_apps/derive.py --route delays: derives the messages of a route from those of a stream."""

import sys

from relaybox.spark.derive_application import main

if __name__ == "__main__":
    sys.exit(main())
