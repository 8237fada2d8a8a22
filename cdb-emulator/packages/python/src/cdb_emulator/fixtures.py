"""Fixtures for pytest, available without an import."""

import pytest

from . import Emulator


@pytest.fixture(scope="session")
def cosmos_emulator():
    """An emulator for the whole run, in memory."""
    with Emulator() as emulator:
        yield emulator


@pytest.fixture
def cosmos(cosmos_emulator):
    """A ``CosmosClient`` of the package azure-cosmos. Its databases are deleted after the test."""
    from azure.cosmos import CosmosClient

    with CosmosClient(cosmos_emulator.endpoint, cosmos_emulator.key) as client:
        yield client
        for database in list(client.list_databases()):
            client.delete_database(database["id"])
