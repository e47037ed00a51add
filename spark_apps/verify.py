"""spark-submit spark_apps/verify.py --route flights: compares all stores of a route."""

import sys

from relaybox.spark.verify_application import main

if __name__ == "__main__":
    sys.exit(main())
