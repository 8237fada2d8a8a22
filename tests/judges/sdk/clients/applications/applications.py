"""Applications that use Microsoft's Python client, unchanged, against an emulator.

Arguments: endpoint, key. Prints one JSON line per application.
"""

import json
import os
import sys
import warnings
from typing import TypedDict

warnings.simplefilter("ignore")
ENDPOINT, KEY = sys.argv[1:3]
os.environ["COSMOSDB_ENDPOINT"], os.environ["COSMOSDB_KEY"] = ENDPOINT, KEY


class State(TypedDict):
    n: int


def langgraph_checkpoint():
    from langgraph.graph import END, START, StateGraph
    from langgraph_checkpoint_cosmosdb import CosmosDBSaver

    saver = CosmosDBSaver(database_name="graphs", container_name="checkpoints")
    graph = StateGraph(State)
    graph.add_node("add", lambda state: {"n": state["n"] + 1})
    graph.add_edge(START, "add")
    graph.add_edge("add", END)
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t1"}}
    assert app.invoke({"n": 1}, config) == {"n": 2}
    assert app.get_state(config).values == {"n": 2}
    assert len(list(app.get_state_history(config))) >= 2
    saver.delete_thread("t1")
    assert app.get_state(config).values == {}


def langchain_chat_history():
    from langchain_community.chat_message_histories import CosmosDBChatMessageHistory

    def history():
        opened = CosmosDBChatMessageHistory(ENDPOINT, "chat", "messages", "s1", "u1", credential=KEY, ttl=1000)
        opened.prepare_cosmos()
        return opened

    first = history()
    first.add_user_message("hello")
    first.add_ai_message("hi")
    assert [message.content for message in history().messages] == ["hello", "hi"]
    first.clear()
    assert history().messages == []


for name, run in [
    ("langgraph-checkpoint-cosmosdb", langgraph_checkpoint),
    ("langchain-community, chat history", langchain_chat_history),
]:
    error = None
    try:
        run()
    except Exception as caught:
        error = repr(caught)[:600]
    print(json.dumps({"area": "applications", "name": name, "error": error}), flush=True)
