"""Microsoft's client for Python (azure-cosmos) against an emulator with three physical partitions.

Called with the endpoint, the key and the name of a promise, or without a name for all of them. Each gets a fresh database,
and raises when it is broken.
"""

import sys

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, exceptions

EVERYWHERE = {"enable_cross_partition_query": True}
PROMISES = {}


def promise(function):
    PROMISES[function.__name__] = function
    return function


def filled(database):
    """Thirty documents in ten partition keys."""
    container = database.create_container("c", PartitionKey("/pk"))
    for n in range(30):
        container.create_item({"id": f"{n:02}", "pk": f"p{n % 10}", "n": n, "group": "abc"[n % 3]})
    return container


def rows(container, sql, **options):
    return list(container.query_items(sql, **options))


def own(document):
    """A document without what the service adds."""
    return {name: value for name, value in document.items() if not name.startswith("_")}


def refused(kind, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


@promise
def databases_are_created_listed_and_deleted(database, client):
    equal(database.read()["id"], database.id)
    refused(exceptions.CosmosResourceExistsError, client.create_database, database.id)
    client.create_database_if_not_exists(database.id)
    found = client.query_databases("SELECT * FROM d WHERE d.id = @id", parameters=[{"name": "@id", "value": database.id}])
    equal([each["id"] for each in found], [database.id])
    client.delete_database(database.id)
    assert database.id not in [each["id"] for each in client.list_databases()]
    refused(exceptions.CosmosResourceNotFoundError, database.read)
    client.create_database(database.id)


@promise
def a_container_keeps_its_definition(database, _client):
    policy = {
        "indexingMode": "consistent",
        "automatic": True,
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/blob/?"}],
        "compositeIndexes": [[{"path": "/group", "order": "ascending"}, {"path": "/n", "order": "descending"}]],
    }
    keys = {"uniqueKeys": [{"paths": ["/email"]}]}
    container = database.create_container(
        "c", PartitionKey("/pk"), indexing_policy=policy, unique_key_policy=keys, default_ttl=3600, offer_throughput=500
    )
    read = container.read()
    equal(read["indexingPolicy"]["compositeIndexes"], policy["compositeIndexes"])
    equal(read["uniqueKeyPolicy"], keys)
    equal(read["defaultTtl"], 3600)
    equal(container.get_throughput().offer_throughput, 500)
    database.create_container_if_not_exists("c", PartitionKey("/pk"))
    equal([each["id"] for each in database.query_containers("SELECT * FROM c WHERE c.id = 'c'")], ["c"])

    container.create_item({"id": "1", "pk": "p", "email": "a@b"})
    refused(exceptions.CosmosResourceExistsError, container.create_item, {"id": "2", "pk": "p", "email": "a@b"})
    container.create_item({"id": "2", "pk": "q", "email": "a@b"})
    database.delete_container("c")
    equal(list(database.list_containers()), [])


@promise
def a_policy_is_replaced(database, _client):
    container = filled(database)
    sql = "SELECT VALUE c.n FROM c WHERE c.pk = 'p1' ORDER BY c.pk, c.n"
    refused(exceptions.CosmosHttpResponseError, rows, container, sql, partition_key="p1")
    policy = container.read()["indexingPolicy"]
    policy["compositeIndexes"] = [[{"path": "/pk", "order": "ascending"}, {"path": "/n", "order": "ascending"}]]
    database.replace_container(container, PartitionKey("/pk"), indexing_policy=policy)
    equal(rows(container, sql, partition_key="p1"), [1, 11, 21])


@promise
def throughput_is_changed(database, _client):
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=400)
    container.replace_throughput(700)
    equal(container.get_throughput().offer_throughput, 700)


@promise
def a_document_is_created_read_replaced_and_deleted(database, _client):
    container = database.create_container("c", PartitionKey("/pk"))
    document = {"id": "ä 'b' %20", "pk": 'ö"x', "n": 1.5, "nested": {"list": [1, None, True, "ß"]}}
    container.create_item(document)
    refused(exceptions.CosmosResourceExistsError, container.create_item, document)
    equal(own(container.read_item(document["id"], document["pk"])), document)
    document["n"] = 2
    equal(own(container.replace_item(document["id"], document)), document)
    equal(own(container.upsert_item({"id": "new", "pk": 1})), {"id": "new", "pk": 1})
    for key in (True, None, 2.5):
        container.create_item({"id": "typed", "pk": key})
        equal(container.read_item("typed", key)["pk"], key)
    container.delete_item(document["id"], document["pk"])
    refused(exceptions.CosmosResourceNotFoundError, container.read_item, document["id"], document["pk"])


@promise
def a_conditional_write_applies_only_to_the_version_read(database, _client):
    container = database.create_container("c", PartitionKey("/pk"))
    read = container.create_item({"id": "1", "pk": "p"})
    same = {"etag": read["_etag"], "match_condition": MatchConditions.IfNotModified}
    container.replace_item("1", {"id": "1", "pk": "p", "n": 1}, **same)
    lost = exceptions.CosmosAccessConditionFailedError
    refused(lost, container.replace_item, "1", {"id": "1", "pk": "p", "n": 2}, **same)
    refused(lost, container.delete_item, "1", "p", **same)
    newest = container.read_item("1", "p")
    equal(newest["n"], 1)


@promise
def a_patch_changes_what_it_names_when_its_condition_holds(database, _client):
    container = database.create_container("c", PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "p", "n": 1, "tags": ["x"], "gone": True, "from": 1})
    operations = [
        {"op": "set", "path": "/name", "value": "new"},
        {"op": "add", "path": "/tags/-", "value": "y"},
        {"op": "incr", "path": "/n", "value": 41},
        {"op": "remove", "path": "/gone"},
        {"op": "move", "from": "/from", "path": "/to"},
    ]
    patched = container.patch_item("1", "p", operations, filter_predicate="from c where c.n = 1")
    equal(own(patched), {"id": "1", "pk": "p", "n": 42, "tags": ["x", "y"], "name": "new", "to": 1})
    unmet = exceptions.CosmosAccessConditionFailedError
    refused(unmet, container.patch_item, "1", "p", operations[:1], filter_predicate="from c where c.n = 1")
    missing = [{"op": "replace", "path": "/none", "value": 1}]
    equal(refused(exceptions.CosmosHttpResponseError, container.patch_item, "1", "p", missing).status_code, 400)


@promise
def a_batch_is_atomic(database, _client):
    container = database.create_container("c", PartitionKey("/pk"))
    results = container.execute_item_batch(
        [
            ("create", ({"id": "1", "pk": "p"},)),
            ("upsert", ({"id": "2", "pk": "p"},)),
            ("replace", ("1", {"id": "1", "pk": "p", "n": 1})),
            ("patch", ("1", [{"op": "incr", "path": "/n", "value": 1}])),
            ("read", ("1",)),
            ("delete", ("2",)),
        ],
        "p",
    )
    equal([result["statusCode"] for result in results], [201, 201, 200, 200, 200, 204])
    equal(results[4]["resourceBody"]["n"], 2)
    failing = [("create", ({"id": "3", "pk": "p"},)), ("delete", ("none",))]
    error = refused(exceptions.CosmosBatchOperationError, container.execute_item_batch, failing, "p")
    equal(error.error_index, 1)
    equal([result["statusCode"] for result in error.operation_responses], [424, 404])
    refused(exceptions.CosmosResourceNotFoundError, container.read_item, "3", "p")


@promise
def one_partition_answers_the_whole_dialect(database, _client):
    container = filled(database)
    for sql, expected in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", [23, 13, 3]),
        ("SELECT TOP 1 c.id, c.n AS number FROM c ORDER BY c.n", [{"id": "03", "number": 3}]),
        ("SELECT COUNT(1) AS count FROM c WHERE c.n > 3", [{"count": 2}]),
        ("SELECT VALUE AVG(c.n) FROM c", [13]),
        ("SELECT DISTINCT VALUE c.pk FROM c", ["p3"]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 1", [13]),
    ]:
        equal(rows(container, sql, partition_key="p3"), expected)
    groups = rows(container, 'SELECT c["group"] AS g, SUM(c.n) AS total FROM c GROUP BY c["group"]', partition_key="p3")
    equal(sorted((group["g"], group["total"]) for group in groups), [("a", 3), ("b", 13), ("c", 23)])


@promise
def sorts_of_all_partitions_are_merged(database, _client):
    container = filled(database)
    for sql, expected in [
        ("SELECT VALUE c.n FROM c ORDER BY c.n", list(range(30))),
        ("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC", [29, 28, 27, 26]),
        ("SELECT VALUE c.n FROM c WHERE c.n < 20 ORDER BY c.n OFFSET 5 LIMIT 3", [5, 6, 7]),
        ("SELECT VALUE c.n FROM c WHERE c.pk IN ('p1', 'p2') ORDER BY c.n", [1, 2, 11, 12, 21, 22]),
        ("SELECT VALUE c.n FROM c WHERE c.pk = 'p7' ORDER BY c.n DESC", [27, 17, 7]),
        ("SELECT DISTINCT VALUE c.pk FROM c ORDER BY c.pk", [f"p{n}" for n in range(10)]),
    ]:
        equal(rows(container, sql, **EVERYWHERE), expected)
    sql = "SELECT TOP @count VALUE c.n FROM c WHERE c.n > @least ORDER BY c.n"
    parameters = [{"name": "@count", "value": 2}, {"name": "@least", "value": 9}]
    equal(rows(container, sql, parameters=parameters, **EVERYWHERE), [10, 11])


@promise
def aggregates_of_all_partitions_add_up(database, _client):
    container = filled(database)
    for sql, expected in [
        ("SELECT VALUE COUNT(1) FROM c", 30),
        ("SELECT VALUE SUM(c.n) FROM c WHERE c.n < 10", 45),
        ("SELECT VALUE AVG(c.n) FROM c", 14.5),
        ("SELECT VALUE MIN(c.n) FROM c WHERE c.n > 4", 5),
        ("SELECT VALUE MAX(c.n) FROM c", 29),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'p4'", 3),
    ]:
        equal(rows(container, sql, **EVERYWHERE), [expected])


@promise
def the_rest_of_the_dialect_works_over_all_partitions(database, _client):
    container = filled(database)
    for sql, count in [
        ("SELECT * FROM c", 30),
        ("SELECT TOP 7 * FROM c", 7),
        ("SELECT * FROM c OFFSET 10 LIMIT 15", 15),
        ('SELECT DISTINCT c["group"] FROM c', 3),
        ("SELECT c.id FROM c WHERE c.n < 12", 12),
    ]:
        equal(len(rows(container, sql, **EVERYWHERE)), count)


@promise
def queries_the_client_cannot_merge_are_refused_with_the_service_s_message(database, _client):
    container = filled(database)
    for sql, feature in [
        ("SELECT COUNT(1) FROM c", "NonValueAggregate"),
        ("SELECT c.pk FROM c GROUP BY c.pk", "GroupBy"),
    ]:
        error = refused(exceptions.CosmosHttpResponseError, rows, container, sql, **EVERYWHERE)
        assert f"Query contained {feature}" in str(error), error


@promise
def pages_have_the_size_that_is_asked_for(database, _client):
    container = filled(database)
    pages = container.query_items("SELECT * FROM c WHERE c.n < 29", max_item_count=2, partition_key="p3").by_page()
    equal([len(list(page)) for page in pages], [2, 1])
    pages = container.query_items("SELECT * FROM c ORDER BY c.n", max_item_count=8, **EVERYWHERE).by_page()
    equal([len(list(page)) for page in pages], [8, 8, 8, 6])
    first = container.query_items("SELECT VALUE c.n FROM c", max_item_count=2, partition_key="p3").by_page()
    seen = list(next(first))
    rest = container.query_items("SELECT VALUE c.n FROM c", max_item_count=2, partition_key="p3")
    for page in rest.by_page(first.continuation_token):
        seen += page
    equal(sorted(seen), [3, 13, 23])


@promise
def many_documents_are_read_at_once(database, _client):
    container = filled(database)
    equal(len(list(container.read_all_items())), 30)
    found = container.read_items([("01", "p1"), ("12", "p2"), ("09", "p2")])
    equal(sorted(document["id"] for document in found), ["01", "12"])


@promise
def the_change_feed_resumes_from_its_token(database, _client):
    container = filled(database)
    feed = container.query_items_change_feed(start_time="Beginning")
    equal(len(list(feed)), 30)
    token = container.client_connection.last_response_headers["etag"]
    container.upsert_item({"id": "new", "pk": "p1"})
    equal([change["id"] for change in container.query_items_change_feed(continuation=token)], ["new"])
    changes = container.query_items_change_feed(start_time="Beginning", partition_key="p4")
    equal(sorted(change["id"] for change in changes), ["04", "14", "24"])
    equal(list(container.query_items_change_feed(start_time="Now")), [])


@promise
def the_physical_partitions_share_the_documents(database, _client):
    container = filled(database)
    ranges = list(container.read_feed_ranges())
    equal(len(ranges), 3)
    equal(sum(len(rows(container, "SELECT * FROM c", feed_range=part)) for part in ranges), 30)
    changes = [list(container.query_items_change_feed(feed_range=part, start_time="Beginning")) for part in ranges]
    equal(sum(map(len, changes)), 30)


@promise
def keys_of_several_levels_name_documents_and_prefixes(database, _client):
    container = database.create_container("h", PartitionKey(["/tenant", "/user"], kind="MultiHash"))
    for tenant in "xy":
        for user in "12":
            container.create_item({"id": tenant + user, "tenant": tenant, "user": user})
    equal(container.read_item("x1", ["x", "1"])["id"], "x1")
    equal(sorted(rows(container, "SELECT VALUE c.id FROM c", partition_key=["x"])), ["x1", "x2"])
    equal(rows(container, "SELECT VALUE c.id FROM c ORDER BY c.id DESC", **EVERYWHERE), ["y2", "y1", "x2", "x1"])


@promise
def a_query_tells_what_it_cost(database, _client):
    container = filled(database)
    rows(container, "SELECT * FROM c WHERE c.n = 3", partition_key="p3", populate_query_metrics=True)
    headers = container.client_connection.last_response_headers
    assert float(headers["x-ms-request-charge"]) > 0
    assert "retrievedDocumentCount=1" in headers["x-ms-documentdb-query-metrics"], headers


def main():
    endpoint, key, *names = sys.argv[1:]
    client = CosmosClient(endpoint, key)
    for name in names or PROMISES:
        database = client.create_database(name)
        PROMISES[name](database, client)
        client.delete_database(name)
        print(name)


if __name__ == "__main__":
    main()
