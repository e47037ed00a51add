"""spark-submit spark_apps/transfer.py --hop flights/1: moves one hop until it is empty."""

import sys

from relaybox.spark.transfer_application import main

if __name__ == "__main__":
    sys.exit(main())
