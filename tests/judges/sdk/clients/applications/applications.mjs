// Applications that use Microsoft's JavaScript client, unchanged, against an emulator with HTTPS.
//
// Arguments: endpoint, key. Prints one JSON line per application.

import { createRequire } from "node:module";

const [endpoint, key] = process.argv.slice(2);
const require = createRequire(import.meta.url);

async function botbuilder() {
  const { CosmosDbPartitionedStorage } = require("botbuilder-azure");
  const { CosmosClient } = createRequire(require.resolve("botbuilder-azure"))("@azure/cosmos");
  await new CosmosClient({ endpoint, key }).databases.createIfNotExists({ id: "bots" });
  const storage = new CosmosDbPartitionedStorage({ cosmosDbEndpoint: endpoint, authKey: key, databaseId: "bots", containerId: "state" });
  await storage.write({ "user/1": { name: "a", eTag: "*" }, "user2": { n: 1 } });
  const read = await storage.read(["user/1", "user2", "none"]);
  if (read["user/1"].name !== "a" || read.user2.n !== 1 || read.none) throw new Error(JSON.stringify(read));
  const stale = { ...read.user2, n: 2 };
  await storage.write({ user2: stale });
  let failed = false;
  try { await storage.write({ user2: { ...stale, eTag: read.user2.eTag } }); } catch { failed = true; }
  if (!failed) throw new Error("a stale eTag was accepted");
  await storage.delete(["user2"]);
  if ((await storage.read(["user2"])).user2) throw new Error("not deleted");
}

async function langchainHistory() {
  const { AzureCosmsosDBNoSQLChatMessageHistory } = await import("@langchain/azure-cosmosdb");
  const { HumanMessage, AIMessage } = await import("@langchain/core/messages");
  const options = { sessionId: "s", userId: "u", databaseName: "lc", containerName: "h", connectionString: `AccountEndpoint=${endpoint};AccountKey=${key};` };
  const history = new AzureCosmsosDBNoSQLChatMessageHistory(options);
  await history.addMessage(new HumanMessage("hello"));
  await history.addMessage(new AIMessage("hi"));
  const found = await new AzureCosmsosDBNoSQLChatMessageHistory(options).getMessages();
  if (found.map((m) => m.content).join() !== "hello,hi") throw new Error(JSON.stringify(found));
  await history.clear();
}

async function langchainVectors() {
  const { AzureCosmosDBNoSQLVectorStore } = await import("@langchain/azure-cosmosdb");
  const embeddings = { embedDocuments: async (texts) => texts.map((t) => [t.length, 1, 0]), embedQuery: async (t) => [t.length, 1, 0] };
  const store = new AzureCosmosDBNoSQLVectorStore(embeddings, { databaseName: "lc", containerName: "v", connectionString: `AccountEndpoint=${endpoint};AccountKey=${key};`,
    vectorEmbeddingPolicy: { vectorEmbeddings: [{ path: "/vector", dataType: "float32", distanceFunction: "cosine", dimensions: 3 }] },
    indexingPolicy: { includedPaths: [{ path: "/*" }], excludedPaths: [{ path: "/_etag/?" }], vectorIndexes: [{ path: "/vector", type: "quantizedFlat" }] } });
  await store.addDocuments([{ pageContent: "a", metadata: { n: 1 } }, { pageContent: "a long text here", metadata: { n: 2 } }]);
  const [best] = await store.similaritySearch("b", 1);
  if (best?.pageContent !== "a") throw new Error(JSON.stringify(best));
  await store.delete();
}

async function apollo() {
  const { CosmosDataSource } = require("apollo-datasource-cosmosdb");
  const { CosmosClient } = require("@azure/cosmos");
  const client = new CosmosClient({ endpoint, key });
  const { database } = await client.databases.createIfNotExists({ id: "apollo" });
  const { container } = await database.containers.createIfNotExists({ id: "users", partitionKey: "/id" });
  const source = new CosmosDataSource(container);
  source.initialize({});
  await source.createOne({ id: "1", name: "a" }); await source.createOne({ id: "2", name: "b" });
  if ((await source.findOneById("1")).name !== "a") throw new Error("findOneById");
  const many = await source.findManyByIds(["1", "2"]);
  if (many.map((m) => m.name).join() !== "a,b") throw new Error(JSON.stringify(many));
  const { resources } = await source.findManyByQuery("SELECT * FROM c WHERE c.name = 'b'");
  if (resources.length !== 1) throw new Error("findManyByQuery");
}

for (const [name, run] of [
  ["botbuilder-azure", botbuilder], ["@langchain/azure-cosmosdb, chat history", langchainHistory],
  ["@langchain/azure-cosmosdb, vector store", langchainVectors], ["apollo-datasource-cosmosdb", apollo],
]) {
  let error;
  try {
    await run();
  } catch (caught) {
    error = `${caught.message ?? caught}`.slice(0, 600);
  }
  console.log(JSON.stringify({ area: "applications", name, error }));
}
process.exit(0);
