"""The lake's tables for whoever reads them without Spark: stats, reports, erasing."""
