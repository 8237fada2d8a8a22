"""The installed package: the fixtures, the class, and the command."""

import base64
import subprocess

import pytest
from azure.cosmos import CosmosClient, PartitionKey

import cdb_emulator

KEY = base64.b64encode(bytes(64)).decode()


@pytest.mark.parametrize("run", [1, 2])
def test_every_test_begins_without_databases(cosmos, run):
    assert list(cosmos.list_databases()) == []
    shop = cosmos.create_database("shop")
    orders = shop.create_container("orders", partition_key=PartitionKey("/customer"))
    orders.create_item({"id": "1", "customer": "ada", "total": 990})
    found = orders.query_items("SELECT VALUE c.total FROM c", enable_cross_partition_query=True)
    assert list(found) == [990]


@pytest.mark.parametrize("form", [["--port", "0", "--key", KEY], ["--port=0", f"--key={KEY}"]])
def test_a_port_and_a_key_can_be_given_in_both_forms(form):
    with cdb_emulator.Emulator(*form) as emulator:
        assert emulator.key == KEY
        CosmosClient.from_connection_string(emulator.connection_string).create_database("shop")


def test_a_wrong_option_is_an_error_with_its_reason():
    with pytest.raises(RuntimeError, match="invalid value 'none'"):
        cdb_emulator.Emulator("--partitions", "none")


def test_the_command_is_the_program():
    shown = subprocess.run(["cdb-emulator", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("cdb-emulator ")
