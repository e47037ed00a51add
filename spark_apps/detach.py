"""spark-submit spark_apps/detach.py --store hub: puts into files what only stopped consumers of a store need."""

import sys

from relaybox.spark.detach_application import main

if __name__ == "__main__":
    sys.exit(main())
