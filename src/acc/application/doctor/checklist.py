"""The checks in their order, and the properties that must be checked manually."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from acc.application.doctor import (
    card_checks as card,
)
from acc.application.doctor import (
    protocol_checks as protocol,
)
from acc.application.doctor import (
    protocol_checks as streaming,
)
from acc.application.doctor import (
    security_checks as input_,
)
from acc.application.doctor import (
    security_checks as security,
)
from acc.application.doctor.findings import Area, Finding


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    `section` refers to the A2A specification 1.0, and says so if the check requires more.
    """

    id: str
    area: Area
    title: str
    title_ja: str
    section: str
    run: Callable[[Any], Awaitable[Finding]]

    @property
    def description(self) -> str:
        """Return what the check does: the first line of its docstring."""
        return (self.run.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class ManualCheck:
    """A property that cannot be checked from outside, and what to check instead."""

    id: str
    title: str
    title_ja: str
    section: str
    look_at: str


CHECKS = (
    Check(
        "card-path",
        Area.CARD,
        "The card is at the standard path",
        "Agent Cardを標準の場所で公開",
        "8.2, 14.3",
        card.card_path,
    ),
    Check(
        "card-old-path",
        Area.CARD,
        "The card is at /.well-known/agent.json too",
        "Agent Card（/.well-known/agent.json）を定義",
        "14.3, additionally: older clients",
        card.card_legacy_path,
    ),
    Check(
        "card-fields",
        Area.CARD,
        "The card has all required fields",
        "Agent Cardの必須項目を記述",
        "4.4.1, 5.7",
        card.card_fields,
    ),
    Check(
        "card-versions",
        Area.CARD,
        "The card offers version 1.0",
        "プロトコル1.0に対応",
        "3.6, 8.3.1",
        card.card_versions,
    ),
    Check(
        "card-skills",
        Area.CARD,
        "Skills are described",
        "スキルを明確に記述",
        "4.4.5",
        card.card_skills,
    ),
    Check(
        "card-modes",
        Area.CARD,
        "Input and output types are declared",
        "入出力の形式を宣言",
        "4.4.1, 13.4",
        card.card_modes,
    ),
    Check(
        "schemas",
        Area.CARD,
        "Skills have schemas of input and output",
        "スキーマで入出力を明示的に定義",
        "4.4.4, additionally: schemas in an extension",
        card.card_schemas,
    ),
    Check(
        "card-interfaces",
        Area.CARD,
        "Interfaces are complete",
        "インターフェースを正しく宣言",
        "4.4.6, 8.3.1",
        card.card_interfaces,
    ),
    Check(
        "interfaces-answer",
        Area.CARD,
        "All interfaces return the same tasks",
        "どのインターフェースも同じタスクを返す",
        "5.1, 8.3.1",
        card.interfaces_answer,
    ),
    Check(
        "card-cache",
        Area.CARD,
        "The card can be cached",
        "Agent Cardをキャッシュ可能にする",
        "8.6.1",
        card.card_cache,
    ),
    Check(
        "card-signature",
        Area.CARD,
        "Signatures of the card are well-formed",
        "Agent Cardの署名形式",
        "8.4.2",
        card.card_signature,
    ),
    Check(
        "send",
        Area.PROTOCOL,
        "A message gets a reply",
        "メッセージに応答する",
        "3.1.1, 4.1.1",
        protocol.send,
    ),
    Check(
        "get",
        Area.PROTOCOL,
        "A task can be read",
        "タスクを取得できる",
        "3.1.3, 3.2.4",
        protocol.get,
    ),
    Check(
        "unknown-task",
        Area.PROTOCOL,
        "An unknown task is not found",
        "存在しないタスクはエラーになる",
        "3.1.3, 5.4",
        protocol.unknown_task,
    ),
    Check(
        "list",
        Area.PROTOCOL,
        "Tasks can be listed by their callers",
        "タスク一覧を権限のある者に返す",
        "3.1.4, 13.1",
        protocol.list_tasks,
    ),
    Check(
        "message-to-unknown",
        Area.PROTOCOL,
        "A message to an unknown task is rejected",
        "存在しないタスクへのメッセージを拒否",
        "3.4.2",
        protocol.message_to_unknown,
    ),
    Check(
        "message-to-ended",
        Area.PROTOCOL,
        "A task that has ended accepts no messages",
        "終了したタスクへのメッセージを拒否",
        "3.1.1",
        protocol.message_to_ended,
    ),
    Check(
        "cancel-ended",
        Area.PROTOCOL,
        "A task that has ended cannot be canceled",
        "終了したタスクのキャンセルを拒否",
        "3.1.5, 5.4",
        protocol.cancel_ended,
    ),
    Check(
        "cancel",
        Area.PROTOCOL,
        "A canceled task stays canceled",
        "キャンセルしたタスクは戻らない",
        "3.1.5",
        protocol.cancel,
    ),
    Check(
        "idempotent",
        Area.PROTOCOL,
        "A duplicate message is processed once",
        "冪等性保証（同じIDの重複チェック）",
        "3.3.1, additionally: safe retries",
        protocol.idempotent,
    ),
    Check(
        "versions",
        Area.PROTOCOL,
        "Unsupported versions are rejected",
        "未対応バージョンを拒否",
        "3.6.2",
        protocol.versions,
    ),
    Check(
        "trace-context",
        Area.PROTOCOL,
        "The trace of a request is continued",
        "trace_idによる分散トレーシングを設定",
        "3.2.6, additionally: traceresponse",
        security.trace_context,
    ),
    Check(
        "stream",
        Area.STREAMING,
        "Streams are correct, or rejected if not declared",
        "SSEストリーミング",
        "3.1.2, 3.3.4, 11.7",
        streaming.stream,
    ),
    Check(
        "resume",
        Area.STREAMING,
        "An interrupted stream resumes without a gap",
        "再接続しても取りこぼさない",
        "3.5.2, additionally: Last-Event-ID",
        streaming.resume,
    ),
    Check(
        "subscribe",
        Area.STREAMING,
        "A task continues without its stream",
        "切断してもタスクは続く",
        "3.1.6, 3.5.2",
        streaming.subscribe,
    ),
    Check(
        "https",
        Area.SECURITY,
        "All traffic uses HTTPS",
        "すべての通信にHTTPS使用",
        "7.1, 13.4",
        security.https,
    ),
    Check(
        "hsts",
        Area.SECURITY,
        "HTTPS is enforced",
        "HTTPSを強制（HSTS）",
        "13.4",
        security.hsts,
    ),
    Check(
        "auth-declared",
        Area.SECURITY,
        "The card declares how to authenticate",
        "認証スキームを宣言",
        "7.3, 4.5.1",
        security.auth_declared,
    ),
    Check(
        "auth-enforced",
        Area.SECURITY,
        "Credentials are verified",
        "認証情報を検証",
        "7.4, 3.3.2",
        security.auth_enforced,
    ),
    Check(
        "token-kind",
        Area.SECURITY,
        "Tokens are from OAuth2 or OpenID Connect, or JWTs",
        "認証スキーム（OAuth2/JWT）を実装",
        "7.3, additionally: tokens that expire",
        security.token_kind,
    ),
    Check(
        "extended-card",
        Area.SECURITY,
        "The extended card requires authentication",
        "拡張Agent Cardは認証後のみ",
        "13.3, 3.1.11",
        security.extended_card,
    ),
    Check(
        "foreign-task",
        Area.SECURITY,
        "Tasks of other callers are not found",
        "他者のタスクは存在しないものとして扱う",
        "13.1, 3.3.2",
        security.foreign_task,
    ),
    Check(
        "foreign-context",
        Area.SECURITY,
        "Contexts of other callers are rejected",
        "他者のcontextIdを拒否",
        "3.4.1, 13.1",
        security.foreign_context,
    ),
    Check(
        "push-targets",
        Area.PUSH,
        "Notifications are sent to public addresses only",
        "プッシュ通知先のSSRF対策",
        "13.2",
        security.push_targets,
    ),
    Check(
        "push-works",
        Area.PUSH,
        "Notifications can be configured",
        "プッシュ通知を設定できる",
        "3.1.7, 3.1.10",
        security.push_works,
    ),
    Check(
        "push-undeclared",
        Area.PUSH,
        "Undeclared notifications are rejected",
        "未宣言のプッシュ通知を拒否",
        "3.3.4",
        security.push_undeclared,
    ),
    Check(
        "webhook-keys",
        Area.PUSH,
        "Notifications can be verified with public keys",
        "Webhookの署名を公開鍵で検証できる",
        "13.2, additionally: public keys",
        security.webhook_keys,
    ),
    Check(
        "broken-json",
        Area.INPUT,
        "Invalid JSON is rejected",
        "壊れたJSONを拒否",
        "9.5, 13.4",
        input_.broken_json,
    ),
    Check(
        "wrong-params",
        Area.INPUT,
        "Wrong types are rejected",
        "誤った型を拒否",
        "3.3.2, 9.5",
        input_.wrong_params,
    ),
    Check(
        "unknown-method",
        Area.INPUT,
        "Unknown methods are rejected",
        "未知のメソッドを拒否",
        "9.5, 11.6",
        input_.unknown_method,
    ),
    Check(
        "deep-nesting",
        Area.INPUT,
        "Deeply nested JSON is rejected",
        "過度に入れ子のJSONを拒否",
        "13.4",
        input_.deep_nesting,
    ),
    Check(
        "header-limit",
        Area.INPUT,
        "Headers are limited",
        "ヘッダーサイズを制限",
        "13.4",
        input_.header_limit,
    ),
    Check(
        "size-limit",
        Area.INPUT,
        "Request bodies are limited",
        "リクエストサイズを制限",
        "13.4",
        input_.size_limit,
    ),
    Check(
        "rate-limit",
        Area.INPUT,
        "Rate limits are visible",
        "レート制限",
        "13.4",
        input_.rate_limit,
    ),
    Check(
        "circuits",
        Area.INPUT,
        "Circuit breakers are visible",
        "サーキットブレーカーの状態",
        "13.2, additionally: circuits at /status",
        input_.circuits,
    ),
)
MANUAL_CHECKS = (
    ManualCheck(
        "retries",
        "Retries with exponential backoff",
        "リトライ（指数バックオフ）を実装",
        "13.2",
        "notifications and calls of other agents are retried with backoff and a limit",
    ),
    ManualCheck(
        "circuit-breaker",
        "Circuit breaker for failing dependencies",
        "サーキットブレーカーパターンを適用",
        "13.2",
        "the agent temporarily stops calling a remote agent or receiver that keeps failing",
    ),
    ManualCheck(
        "webhook-signature",
        "Receivers verify the signatures of notifications",
        "Webhookには署名検証を実装",
        "13.2, 4.3.3",
        "notifications are signed, and receivers compare in constant time, reject old ones, and "
        "accept each one once",
    ),
    ManualCheck(
        "memory-scope",
        "Memory is filtered by caller",
        "メモリスコープを適切にフィルタリング",
        "13.1",
        "which state and memory each agent receives, in particular remote agents",
    ),
    ManualCheck(
        "least-privilege",
        "Least privilege",
        "最小権限",
        "7.5",
        "roles, keys and network of the process, and which tools require approval",
    ),
    ManualCheck(
        "intents",
        "Intent-driven design, schema first",
        "インテント駆動・スキーマファースト",
        "4.4.5",
        "the agent tree, with `acc check MODULE:AGENT`",
    ),
    ManualCheck(
        "context",
        "Caller, trace id and time are passed with every request",
        "コンテキスト透過性",
        "3.2.6",
        "the logs of one request across all agents",
    ),
    ManualCheck(
        "restart",
        "A task survives its process",
        "プロセスが落ちてもタスクが残る",
        "3.5.2",
        "kill the process during a task: after the restart the task continues or has failed",
    ),
    ManualCheck(
        "replicas",
        "Several server processes are consistent",
        "複数サーバー間の整合性",
        "3.1.5",
        "cancel a task on one server while its agent runs on another",
    ),
    ManualCheck(
        "retention",
        "History and events expire",
        "履歴の保存期間",
        "13.4",
        "how long tasks, messages and events are stored, and what deletes them",
    ),
    ManualCheck(
        "file-references",
        "File references are fetched safely",
        "ファイル参照のSSRF対策",
        "14.1.1",
        "URLs of file parts are checked like URLs of notifications",
    ),
    ManualCheck(
        "logs",
        "Logs contain no secrets",
        "ログに秘密情報を残さない",
        "7.1, 13.4",
        "the logs of this test with a token: they must not contain tokens or messages",
    ),
)


@dataclass(frozen=True, slots=True)
class ChecklistLine:
    """A line of the checklist for A2A implementations.

    `checks` are the ids of its checks. Without one it is seen in `manual` only.
    """

    title: str
    title_ja: str
    checks: tuple[str, ...] = ()
    manual: str = ""


CHECKLIST = (
    ChecklistLine(
        "Agent card",
        "Agent Card（/.well-known/agent.json）を定義",
        ("card-path", "card-old-path", "card-fields"),
    ),
    ChecklistLine("Schemas of input and output", "スキーマで入出力を明示的に定義", ("schemas",)),
    ChecklistLine("HTTPS", "すべての通信にHTTPS使用", ("https",)),
    ChecklistLine(
        "Authentication (OAuth2, JWT)",
        "認証スキーム（OAuth2/JWT）を実装",
        ("auth-declared", "auth-enforced", "token-kind"),
    ),
    ChecklistLine(
        "Distributed tracing", "trace_idによる分散トレーシングを設定", ("trace-context",)
    ),
    ChecklistLine(
        "Retries with exponential backoff", "リトライ（指数バックオフ）を実装", manual="retries"
    ),
    ChecklistLine(
        "Circuit breaker",
        "サーキットブレーカーパターンを適用",
        ("circuits",),
        "circuit-breaker",
    ),
    ChecklistLine("Idempotency", "冪等性保証（request_idによる重複チェック）", ("idempotent",)),
    ChecklistLine(
        "Signed webhooks", "Webhookには署名検証を実装", ("webhook-keys",), "webhook-signature"
    ),
    ChecklistLine(
        "Memory filtered by caller",
        "メモリスコープを適切にフィルタリング",
        manual="memory-scope",
    ),
    ChecklistLine("Rate limits", "レート制限", ("rate-limit",)),
)
