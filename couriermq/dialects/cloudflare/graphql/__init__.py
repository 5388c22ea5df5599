"""The vendor's analytics in GraphQL: three datasets of queues, answered from the statistics of the native API."""
