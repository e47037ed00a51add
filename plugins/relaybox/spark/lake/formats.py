"""The formats of tables that an export writes, by the key `to` of relaybox.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.lake.table import LakeTable


def open_table(export: Export, store_id: str) -> LakeTable:
    """The table of an export of this store. Reads nothing yet.

    Raises:
        ConfigurationError: the library of the format is not installed.
    """
    try:
        if export.format == "iceberg":
            from relaybox.spark.lake.iceberg_table import IcebergLakeTable

            return IcebergLakeTable(export, store_id)
        if export.format == "parquet":
            from relaybox.spark.lake.parquet_table import ParquetLakeTable

            return ParquetLakeTable(export, store_id)
        from relaybox.spark.lake.delta_table import DeltaLakeTable
    except ImportError as error:
        raise ConfigurationError(
            f"export {export.name}: to: {export.format} needs a library that is not installed: {error}.",
            next_step="Install relaybox[spark,lake] where the export runs.",
        ) from error
    return DeltaLakeTable(export, store_id)
