"""The classes and functions of the customer's specification; only imports are different."""
# mypy: disable-error-code="type-arg"
# ruff: noqa: BLE001, ERA001, TRY002

import time
from typing import Any

from acc.contracts import Field, FunctionNode, ToolNode, ToolSchema


# Section 2.2
def resolve_network_issue(inputs: dict, memory: dict) -> dict:
    previous_attempts = memory.get("network_diagnostics", 0)
    if previous_attempts >= 3:
        return {"action": "escalate_to_support"}
    memory["network_diagnostics"] = previous_attempts + 1
    return {"action": "run_diagnostics_check"}


# Section 4.2
class SummaryRouterNode(FunctionNode):
    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        doc_type = inputs["doc_type"]
        text = inputs["text"]

        if doc_type == "legal":
            agent_url = "https://legal-summarizer-agent/run"
            intent = "summarize_legal"
        elif doc_type == "science":
            agent_url = "https://science-summarizer-agent/run"
            intent = "summarize_scientific"
        else:
            agent_url = "https://general-summarizer-agent/run"
            intent = "summarize_generic"

        result = self.call_agent(
            url=agent_url,
            payload={"intent": intent, "inputs": {"text": text}, "context": context},
        )
        return {"summary": result["summary"]}


# Section 7.2
class SummarizeTextSchema(ToolSchema):
    name = "summarize_text"
    description = "入力テキストのサマリーを生成します。"

    inputs = {
        "text": Field(type=str, required=True, description="要約対象テキスト"),
        "length": Field(
            type=str,
            required=False,
            default="medium",
            description="サマリー長: short, medium, long",
        ),
    }

    outputs = {"summary": Field(type=str, description="生成されたサマリーテキスト")}


class SummarizeTextNode(ToolNode):
    schema_class = SummarizeTextSchema

    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        text = inputs["text"]
        target_length = inputs.get("length", "medium")

        if target_length == "short":
            summary = text[:50] + "..."
        elif target_length == "long":
            summary = text[:200]
        else:
            summary = text[:100] + "..."

        return {"summary": summary}


# Section 11.3
class ReportSummaryNode(ToolNode):
    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        if context.get("debug_mode"):
            # デバッグ時はモックレスポンスを返す
            return {"summary": "[DEBUG] Summary would go here."}

        # 本番: リモートAgentを呼び出し
        response = self.call_agent(
            url="https://summary-agent/run",
            payload={
                "intent": "summarize_text",
                "inputs": {"text": inputs["section"]},
                "context": context,
            },
        )
        return {"summary": response["summary"]}


# Section 12.2
sent_messages: list[str] = []


def send_to_log_service(message: str) -> None:
    sent_messages.append(message)


class PublishLogNode(FunctionNode):
    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        """冪等性を保証するノード"""
        log_id = inputs.get("request_id")
        trace_id = context.get("trace_id")  # noqa: F841

        # 既処理チェック（リプレイ攻撃防止）
        if memory.get(f"log_sent:{log_id}"):
            return {"status": "skipped", "reason": "already_processed"}

        # ログ送信
        send_to_log_service(inputs["message"])
        memory[f"log_sent:{log_id}"] = True

        return {"status": "success", "log_id": log_id}


# Section 12.3
class Counters:
    """Counts like Redis, in this process."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.lifetimes: dict[str, int] = {}

    def incr(self, key: str) -> int:
        self.values[key] = self.values.get(key, 0) + 1
        return self.values[key]

    def expire(self, key: str, seconds: int) -> None:
        self.lifetimes[key] = seconds


redis = Counters()


def compute_embeddings(text: str) -> dict[str, Any]:
    return {"embedding": [float(ord(letter)) for letter in text]}


class EmbeddingNode(FunctionNode):
    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        # レート制限（Redis使用）
        caller = context.get("caller")
        key = f"rate:{caller}"
        current = redis.incr(key)
        redis.expire(key, 60)  # 60秒でリセット

        if current > 100:
            raise Exception(f"Rate limit exceeded for {caller}")

        return compute_embeddings(inputs["text"])


# Section 13.3
class RetriableCallNode(FunctionNode):
    def run(self, inputs: dict, memory: dict, context: dict) -> dict:
        retries = 3
        delay = 1

        for attempt in range(retries):
            try:
                result = self.call_agent(
                    url="https://qa-agent/run",
                    payload={
                        "intent": "question_answering",
                        "inputs": {"query": inputs["query"]},
                        "context": context,
                    },
                )
                return {"answer": result["answer"]}

            except Exception as e:
                self.logger.warning(
                    {"attempt": attempt + 1, "trace_id": context["trace_id"], "error": str(e)}
                )

                if attempt == retries - 1:
                    return {"error": f"Failed after {retries} retries"}

                time.sleep(delay)
                delay *= 2  # 指数バックオフ

        return {"error": "Unexpected failure"}
