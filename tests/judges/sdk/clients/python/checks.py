"""Checks of Microsoft's Python client against an emulator with three physical partitions.

Arguments: endpoint, key, the file of the shared queries. Prints one JSON line per check.
"""

import json
import math
import sys
import time

from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, ThroughputProperties, exceptions

ENDPOINT, KEY, FILE = sys.argv[1:]
with open(FILE, encoding="utf-8") as file:
    SHARED = json.load(file)
client = CosmosClient(ENDPOINT, KEY)
CHECKS = []
TABLES = {}


def check(area, name, declared=None):
    def add(run):
        CHECKS.append((area, name, run, declared))
        return run

    return add


def equal(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


def refused(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except exceptions.CosmosHttpResponseError as error:
        equal(error.status_code, code)
        return error
    raise AssertionError(f"status {code} was expected")


def own(item):
    return {name: value for name, value in item.items() if not name.startswith("_")}


def in_order(rows):
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def filled(database, count=30, **definition):
    container = database.create_container("c", PartitionKey("/pk"), **definition)
    for n in range(count):
        container.create_item({"id": f"{n:03}", "pk": f"p{n % 10}", "n": n})
    return container


def rows(container, sql, **options):
    if "partition_key" not in options:
        options["enable_cross_partition_query"] = True
    return list(container.query_items(sql, **options))


def table():
    if "shared" not in TABLES:
        container = client.create_database("shared").create_container("c", PartitionKey("/pk"))
        for document in SHARED["documents"]:
            container.create_item(document)
        TABLES["shared"] = container
    return TABLES["shared"]


def shared_query(case):
    def run():
        options = {"parameters": case["parameters"]} if "parameters" in case else {}
        if "key" in case:
            options["partition_key"] = case["key"]
        found, expected = rows(table(), case["sql"], **options), case["rows"]
        if case.get("own"):
            found = [own(row) for row in found]
        if case.get("unordered"):
            found, expected = in_order(found), in_order(expected)
        equal(found, expected)

    return run


for each in SHARED["cases"]:
    CHECKS.append((each["area"], each["sql"], shared_query(each), each.get("declared", {}).get("python")))


@check("account", "the account document names its regions")
def _(database):
    account = client.get_database_account()
    equal(len(account.WritableLocations), 1)
    equal(account.ConsistencyPolicy["defaultConsistencyLevel"], "Session")


@check("databases", "create, read, delete")
def _():
    database = client.create_database("life")
    equal(database.read()["id"], "life")
    refused(409, client.create_database, "life")
    client.delete_database("life")
    refused(404, database.read)


@check("databases", "create_database_if_not_exists")
def _():
    client.create_database_if_not_exists("maybe")
    client.create_database_if_not_exists("maybe")


@check("databases", "list and query")
def _(database):
    assert database.id in [each["id"] for each in client.list_databases()]
    found = client.query_databases("SELECT * FROM d WHERE d.id = @id", parameters=[{"name": "@id", "value": database.id}])
    equal([each["id"] for each in found], [database.id])


@check("containers", "a definition is kept")
def _(database):
    policy = {
        "indexingMode": "consistent",
        "automatic": True,
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/blob/?"}, {"path": '/"_etag"/?'}],
        "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]],
        "spatialIndexes": [{"path": "/place/*", "types": ["Point", "Polygon"]}],
    }
    keys = {"uniqueKeys": [{"paths": ["/email"]}]}
    container = database.create_container("c", PartitionKey("/pk"), indexing_policy=policy, unique_key_policy=keys, default_ttl=60)
    read = container.read()
    equal(read["indexingPolicy"], policy)
    equal(read["uniqueKeyPolicy"]["uniqueKeys"][0]["paths"], ["/email"])
    equal(read["defaultTtl"], 60)


@check("containers", "defaults of the definition")
def _(database):
    read = database.create_container("c", PartitionKey("/pk")).read()
    policy = {"mode": "LastWriterWins", "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": ""}
    equal(read["conflictResolutionPolicy"], policy)
    equal(read["geospatialConfig"], {"type": "Geography"})


@check("containers", "replace")
def _(database):
    container = filled(database)
    sql = "SELECT VALUE c.n FROM c WHERE c.pk = 'p1' ORDER BY c.pk, c.n"
    refused(400, rows, container, sql, partition_key="p1")
    policy = container.read()["indexingPolicy"]
    policy["compositeIndexes"] = [[{"path": "/pk", "order": "ascending"}, {"path": "/n", "order": "ascending"}]]
    database.replace_container(container, PartitionKey("/pk"), indexing_policy=policy)
    equal(rows(container, sql, partition_key="p1"), [1, 11, 21])


@check("containers", "delete, list and query")
def _(database):
    database.create_container("c", PartitionKey("/pk"))
    equal([each["id"] for each in database.list_containers()], ["c"])
    equal(len(list(database.query_containers("SELECT * FROM c WHERE c.id = 'c'"))), 1)
    database.delete_container("c")
    equal(list(database.list_containers()), [])


@check("containers", "a unique key")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"), unique_key_policy={"uniqueKeys": [{"paths": ["/email"]}]})
    container.create_item({"id": "1", "pk": "p", "email": "a"})
    refused(409, container.create_item, {"id": "2", "pk": "p", "email": "a"})
    container.create_item({"id": "2", "pk": "q", "email": "a"})


@check("containers", "quota and statistics")
def _(database):
    container = filled(database)
    read = container.read(populate_quota_info=True, populate_partition_key_range_statistics=True)
    headers = container.client_connection.last_response_headers
    assert "documentsCount=30;" in headers["x-ms-resource-usage"], headers["x-ms-resource-usage"]
    assert "collectionSize=" in headers["x-ms-resource-quota"], headers["x-ms-resource-quota"]
    equal(sum(each["documentCount"] for each in read["statistics"]), 30)


@check("containers", "empty lists of procedures, triggers, functions and conflicts")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    scripts = container.scripts
    for listed in (scripts.list_stored_procedures, scripts.list_triggers, scripts.list_user_defined_functions, container.list_conflicts):
        equal(list(listed()), [])
    equal(list(scripts.query_stored_procedures("SELECT * FROM s")), [])


@check("containers", "version 1 of the partition key")
def _(database):
    container = database.create_container("c", PartitionKey("/pk", version=1))
    for n in range(40):
        container.create_item({"id": str(n), "pk": f"p{n}", "n": n})
    equal(rows(container, "SELECT VALUE c.n FROM c ORDER BY c.n"), list(range(40)))
    parts = list(container.read_feed_ranges())
    equal(sum(len(rows(container, "SELECT * FROM c", feed_range=part)) for part in parts), 40)
    ranges = container.feed_range_from_partition_key("p7")
    assert sum(container.is_feed_range_subset(part, ranges) for part in parts) == 1


@check("containers", "computed properties")
def _(database):
    computed = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    container = database.create_container("c", PartitionKey("/pk"), computed_properties=computed)
    for n, name in enumerate(["Bob", "ANN", "cid"]):
        container.create_item({"id": str(n), "pk": f"p{n}", "name": name})
    equal(container.read()["computedProperties"], computed)
    equal(rows(container, "SELECT VALUE c.name FROM c WHERE c.lower = 'ann'"), ["ANN"])
    assert "lower" not in rows(container, "SELECT * FROM c", partition_key="p0")[0]


@check("containers", "a sort by an indexed computed property")
def _(database):
    computed = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    policy = {"includedPaths": [{"path": "/*"}, {"path": "/lower/?"}], "excludedPaths": [{"path": '/"_etag"/?'}]}
    container = database.create_container("c", PartitionKey("/pk"), computed_properties=computed, indexing_policy=policy)
    for n, name in enumerate(["Bob", "ANN", "cid"]):
        container.create_item({"id": str(n), "pk": f"p{n}", "name": name})
    equal(rows(container, "SELECT VALUE c.lower FROM c ORDER BY c.lower"), ["ann", "bob", "cid"])


@check("items", "create, read, replace, upsert, delete")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    document = {"id": "ä 'b' %20", "pk": 'ö"x', "z": 1.5, "a": {"y": 2, "b": [1, None, True, "ß"]}}
    container.create_item(document)
    refused(409, container.create_item, document)
    equal(own(container.read_item(document["id"], document["pk"])), document)
    document["z"] = 2
    equal(own(container.replace_item(document["id"], document)), document)
    equal(own(container.upsert_item({"id": "new", "pk": 1})), {"id": "new", "pk": 1})
    container.delete_item(document["id"], document["pk"])
    refused(404, container.read_item, document["id"], document["pk"])


@check("items", "properties keep their order")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    container.create_item({"zebra": 1, "id": "1", "pk": "p", "apple": {"z": 1, "a": 2}})
    read = container.read_item("1", "p")
    equal(list(read)[:4], ["zebra", "id", "pk", "apple"])
    equal(list(read["apple"]), ["z", "a"])
    equal(list(rows(container, "SELECT c.zebra, c.id, c.apple FROM c")[0]), ["zebra", "id", "apple"])


@check("items", "conditions by ETag")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    read = container.create_item({"id": "1", "pk": "p"})
    same = {"etag": read["_etag"], "match_condition": MatchConditions.IfNotModified}
    container.replace_item("1", {"id": "1", "pk": "p", "n": 1}, **same)
    refused(412, container.replace_item, "1", {"id": "1", "pk": "p", "n": 2}, **same)
    refused(412, container.delete_item, "1", "p", **same)


@check("items", "partition keys of all types")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    for n, key in enumerate(['ä"x', 1.5, True, None]):
        container.create_item({"id": str(n), "pk": key})
        equal(container.read_item(str(n), key)["pk"], key)


@check("items", "hierarchical partition keys")
def _(database):
    container = database.create_container("h", PartitionKey(["/t", "/u"], kind="MultiHash"))
    for t in "xy":
        for u in "12":
            container.create_item({"id": t + u, "t": t, "u": u})
    equal(container.read_item("x1", ["x", "1"])["id"], "x1")
    equal(sorted(rows(container, "SELECT VALUE c.id FROM c", partition_key=["x"])), ["x1", "x2"])
    equal(rows(container, "SELECT VALUE c.id FROM c ORDER BY c.id DESC"), ["y2", "y1", "x2", "x1"])


@check("items", "a time to live")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"), default_ttl=-1)
    container.create_item({"id": "1", "pk": "p", "ttl": 1})
    time.sleep(2.1)
    refused(404, container.read_item, "1", "p")


@check("items", "the list of all items by page")
def _(database):
    pages = filled(database).read_all_items(max_item_count=7).by_page()
    equal(sum(len(list(page)) for page in pages), 30)


@check("patch", "all operations")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "p", "n": 1, "tags": ["x"], "gone": True, "from": 1})
    operations = [
        {"op": "set", "path": "/name", "value": "new"},
        {"op": "add", "path": "/tags/-", "value": "y"},
        {"op": "incr", "path": "/n", "value": 41},
        {"op": "remove", "path": "/gone"},
        {"op": "move", "from": "/from", "path": "/to"},
        {"op": "replace", "path": "/tags/0", "value": "z"},
    ]
    equal(own(container.patch_item("1", "p", operations)), {"id": "1", "pk": "p", "n": 42, "tags": ["z", "y"], "name": "new", "to": 1})


@check("patch", "a condition")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "p", "n": 1})
    operations = [{"op": "incr", "path": "/n", "value": 1}]
    equal(container.patch_item("1", "p", operations, filter_predicate="from c where c.n = 1")["n"], 2)
    refused(412, container.patch_item, "1", "p", operations, filter_predicate="from c where c.n = 1")


@check("patch", "an unknown path")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "p"})
    refused(400, container.patch_item, "1", "p", [{"op": "replace", "path": "/none", "value": 1}])


@check("batch", "all operations")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    operations = [
        ("create", ({"id": "1", "pk": "p"},)),
        ("upsert", ({"id": "2", "pk": "p"},)),
        ("replace", ("1", {"id": "1", "pk": "p", "n": 1})),
        ("patch", ("1", [{"op": "incr", "path": "/n", "value": 1}])),
        ("read", ("1",)),
        ("delete", ("2",)),
    ]
    results = container.execute_item_batch(operations, "p")
    equal([result["statusCode"] for result in results], [201, 201, 200, 200, 200, 204])
    equal(results[4]["resourceBody"]["n"], 2)


@check("batch", "a failure undoes the others")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    failing = [("create", ({"id": "3", "pk": "p"},)), ("delete", ("none",))]
    try:
        container.execute_item_batch(failing, "p")
    except exceptions.CosmosBatchOperationError as error:
        equal([result["statusCode"] for result in error.operation_responses], [424, 404])
    refused(404, container.read_item, "3", "p")


@check("change feed", "from the beginning, then from the token")
def _(database):
    container = filled(database)
    equal(len(list(container.query_items_change_feed(start_time="Beginning", max_item_count=4))), 30)
    token = container.client_connection.last_response_headers["etag"]
    container.upsert_item({"id": "new", "pk": "p1"})
    equal([change["id"] for change in container.query_items_change_feed(continuation=token)], ["new"])


@check("change feed", "of one partition key")
def _(database):
    changes = filled(database).query_items_change_feed(start_time="Beginning", partition_key="p4")
    equal(sorted(change["n"] for change in changes), [4, 14, 24])


@check("change feed", "from now")
def _(database):
    equal(list(filled(database).query_items_change_feed(start_time="Now")), [])


@check("change feed", "by feed range")
def _(database):
    container = filled(database)
    parts = list(container.read_feed_ranges())
    changes = [list(container.query_items_change_feed(feed_range=part, start_time="Beginning")) for part in parts]
    equal([len(parts), sum(map(len, changes))], [3, 30])


@check("change feed", "all versions and deletes")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"), change_feed_policy={"retentionDuration": 10})
    mode = {"mode": "AllVersionsAndDeletes"}
    equal(list(container.query_items_change_feed(start_time="Now", **mode)), [])
    token = container.client_connection.last_response_headers["etag"]
    container.create_item({"id": "1", "pk": "p", "n": 1})
    container.replace_item("1", {"id": "1", "pk": "p", "n": 2})
    container.delete_item("1", "p")
    found = list(container.query_items_change_feed(continuation=token, **mode))
    equal([change["metadata"]["operationType"] for change in found], ["create", "replace", "delete"])
    equal([change.get("current", {}).get("n") for change in found], [1, 2, None])


@check("read-many", "read_items of 1,000 ids")
def _(database):
    container = filled(database, 100)
    found = container.read_items([(f"{n:03}", f"p{n % 10}") for n in range(1000)])
    equal(len(list(found)), 100)


@check("read-many", "1,000 items by a filter")
def _(database):
    container = filled(database, 100)
    terms = " OR ".join(f"(c.id = @id{n} AND c.pk = @pk{n})" for n in range(1000))
    parameters = [{"name": f"@id{n}", "value": f"{n:03}"} for n in range(1000)]
    parameters += [{"name": f"@pk{n}", "value": f"p{n % 10}"} for n in range(1000)]
    equal(len(rows(container, f"SELECT * FROM c WHERE {terms}", parameters=parameters)), 100)


@check("pages", "pages have the requested size")
def _(database):
    container = filled(database)
    pages = container.query_items("SELECT * FROM c WHERE c.n < 29", max_item_count=2, partition_key="p3").by_page()
    equal([len(list(page)) for page in pages], [2, 1])
    pages = container.query_items("SELECT * FROM c ORDER BY c.n", max_item_count=8, enable_cross_partition_query=True).by_page()
    equal([len(list(page)) for page in pages], [8, 8, 8, 6])


@check("pages", "a sorted query resumes from its token, one partition")
def _(database):
    container = filled(database)
    seen, token = [], None
    while True:
        pages = container.query_items("SELECT VALUE c.n FROM c ORDER BY c.n", max_item_count=2, partition_key="p3").by_page(token)
        seen += list(next(pages))
        token = pages.continuation_token
        if not token:
            break
    equal(seen, [3, 13, 23])


@check("pages", "a page ends before 4 MB")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    for n in range(5):
        container.create_item({"id": str(n), "pk": "p", "text": "x" * 1_500_000})
    pages = container.query_items("SELECT * FROM c", partition_key="p").by_page()
    equal([len(list(page)) for page in pages], [2, 2, 1])


@check("metrics", "query metrics")
def _(database):
    container = filled(database)
    rows(container, "SELECT * FROM c WHERE c.n = 3", partition_key="p3", populate_query_metrics=True)
    headers = container.client_connection.last_response_headers
    assert "retrievedDocumentCount=1" in headers["x-ms-documentdb-query-metrics"], headers


@check("metrics", "index metrics")
def _(database):
    container = filled(database)
    rows(container, "SELECT * FROM c WHERE c.n = 3", partition_key="p3", populate_index_metrics=True)
    metrics = container.client_connection.last_response_headers["x-ms-cosmos-index-utilization"]
    equal(metrics["UtilizedSingleIndexes"][0]["IndexSpec"], "/n/?")


@check("throughput", "of a container")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=500)
    equal(container.get_throughput().offer_throughput, 500)
    container.replace_throughput(700)
    equal(container.get_throughput().offer_throughput, 700)


@check("throughput", "autoscale")
def _(database):
    throughput = ThroughputProperties(auto_scale_max_throughput=1000)
    container = database.create_container("c", PartitionKey("/pk"), offer_throughput=throughput)
    equal(container.get_throughput().auto_scale_max_throughput, 1000)


@check("users", "users and permissions")
def _(database):
    container = database.create_container("c", PartitionKey("/pk"))
    user = database.create_user({"id": "u"})
    equal([each["id"] for each in database.list_users()], ["u"])
    definition = {"id": "p", "permissionMode": "Read", "resource": container.container_link}
    permission = user.create_permission(definition)
    equal([permission.permission_mode, permission.resource_link], ["Read", container.container_link])
    assert permission.properties["_token"].startswith("type=resource&ver=1")
    equal(len(list(user.list_permissions())), 1)
    equal(user.replace_permission("p", {**definition, "permissionMode": "All"}).permission_mode, "All")
    equal(user.upsert_permission(definition).permission_mode, "Read")
    user.delete_permission("p")
    refused(404, user.get_permission, "p")
    equal(database.replace_user("u", {"id": "v"}).id, "v")
    database.delete_user("v")
    equal(list(database.list_users()), [])


def limited(database, container, mode, **definition):
    user = database.upsert_user({"id": "u"})
    permission = user.upsert_permission({"id": "p", "permissionMode": mode, "resource": container.container_link, **definition})
    reader = CosmosClient(ENDPOINT, {container.container_link: permission.properties["_token"]})
    return reader.get_database_client(database.id).get_container_client(container.id)


@check("users", "a resource token that reads")
def _(database):
    container = filled(database)
    reader = limited(database, container, "Read")
    equal(reader.read_item("003", "p3")["n"], 3)
    equal(len(rows(reader, "SELECT * FROM c", partition_key="p3")), 3)
    refused(403, reader.create_item, {"id": "new", "pk": "p"})
    refused(403, reader.delete_item, "003", "p3")


@check("users", "a resource token that writes")
def _(database):
    writer = limited(database, filled(database), "All")
    equal(own(writer.create_item({"id": "new", "pk": "p"})), {"id": "new", "pk": "p"})


@check("users", "a resource token of one partition key")
def _(database):
    reader = limited(database, filled(database), "Read", resourcePartitionKey=["p3"])
    equal(len(rows(reader, "SELECT * FROM c", partition_key="p3")), 3)
    refused(403, reader.read_item, "004", "p4")


@check("delete by key", "delete_all_items_by_partition_key")
def _(database):
    container = filled(database)
    container.delete_all_items_by_partition_key("p3")
    equal(rows(container, "SELECT VALUE COUNT(1) FROM c"), [27])


WORDS = ["red bike for sale", "blue bicycle", "green red red car", "a car", "red house on a hill", "mountain bike trail bike"]


def searched(database):
    vectors = [{"path": "/v", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 2}]
    container = database.create_container(
        "c",
        PartitionKey("/pk"),
        vector_embedding_policy={"vectorEmbeddings": vectors},
        full_text_policy={"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text", "language": "en-US"}]},
        indexing_policy={
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": '/"_etag"/?'}, {"path": "/v/*"}],
            "vectorIndexes": [{"path": "/v", "type": "flat"}],
            "fullTextIndexes": [{"path": "/text"}],
        },
    )
    for n, text in enumerate(WORDS):
        container.create_item({"id": str(n), "pk": f"p{n}", "text": text, "v": [math.cos(n), math.sin(n)]})
    return container


@check("search", "the nearest vectors of all partitions")
def _(database):
    container = searched(database)
    sql = "SELECT TOP 3 c.id, VectorDistance(c.v, [1, 0]) AS score FROM c ORDER BY VectorDistance(c.v, [1, 0])"
    found = rows(container, sql)
    equal([each["id"] for each in found], ["0", "1", "5"])
    assert abs(found[0]["score"] - 1) < 1e-9, found


@check("search", "the nearest vectors of one partition")
def _(database):
    container = searched(database)
    sql = "SELECT TOP 1 c.id FROM c ORDER BY VectorDistance(c.v, @v)"
    equal(rows(container, sql, parameters=[{"name": "@v", "value": [0, 1]}], partition_key="p2"), [{"id": "2"}])


@check("search", "FullTextContains, All and Any")
def _(database):
    container = searched(database)
    for condition, expected in [
        ("FullTextContains(c.text, 'red')", ["0", "2", "4"]),
        ("FullTextContainsAll(c.text, 'red', 'car')", ["2"]),
        ("FullTextContainsAny(c.text, 'hill', 'car')", ["2", "3", "4"]),
    ]:
        equal(sorted(rows(container, f"SELECT VALUE c.id FROM c WHERE {condition}")), expected)


@check("search", "ORDER BY RANK FullTextScore")
def _(database):
    found = rows(searched(database), "SELECT TOP 2 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'bike')")
    equal([each["id"] for each in found], ["5", "0"])


@check("search", "ORDER BY RANK RRF of text and vector")
def _(database):
    sql = "SELECT TOP 3 c.id FROM c ORDER BY RANK RRF(FullTextScore(c.text, 'red'), VectorDistance(c.v, [1, 0]))"
    found = rows(searched(database), sql)
    equal(len(found), 3)
    equal(found[0]["id"], "0")


def main():
    for number, (area, name, run, declared) in enumerate(CHECKS):
        error = None
        try:
            if run.__code__.co_argcount:
                database = client.create_database(f"check{number}")
                run(database)
                client.delete_database(database.id)
            else:
                run()
        except Exception as caught:
            error = (str(caught) or type(caught).__name__)[:600]
        print(json.dumps({"area": area, "name": name, "error": error, "declared": declared}), flush=True)


main()
