"""The checks in the order in which they are made, and what no visitor can see."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

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
from acc.application.doctor.server import ServerUnderTest


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its name, what it is about, and where the duty stands.

    `section` is of the A2A specification 1.0; what goes beyond it says so.
    """

    id: str
    area: Area
    title: str
    title_ja: str
    section: str
    run: Callable[[ServerUnderTest], Awaitable[Finding]]

    @property
    def does(self) -> str:
        """Return what the check does."""
        return (self.run.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Unseen:
    """A duty that cannot be checked from outside, and what to look at instead."""

    id: str
    title: str
    title_ja: str
    section: str
    look_at: str


CHECKS = (
    Check(
        "card-path",
        Area.CARD,
        "The card is where clients look for it",
        "Agent Cardを標準の場所で公開",
        "8.2, 14.3",
        card.card_path,
    ),
    Check(
        "card-old-path",
        Area.CARD,
        "The card is at /.well-known/agent.json too",
        "Agent Card（/.well-known/agent.json）を定義",
        "14.3, beyond it: older clients",
        card.card_old_path,
    ),
    Check(
        "card-fields",
        Area.CARD,
        "The card has every required field",
        "Agent Cardの必須項目を記述",
        "4.4.1, 5.7",
        card.card_fields,
    ),
    Check(
        "card-generations",
        Area.CARD,
        "The card offers generation 1.0",
        "プロトコル1.0に対応",
        "3.6, 8.3.1",
        card.card_generations,
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
        "Input and output are declared",
        "スキーマで入出力を明示的に定義",
        "4.4.1, 13.4",
        card.card_modes,
    ),
    Check(
        "card-interfaces",
        Area.CARD,
        "Interfaces are declared in full",
        "インターフェースを正しく宣言",
        "4.4.6, 8.3.1",
        card.card_interfaces,
    ),
    Check(
        "interfaces-answer",
        Area.CARD,
        "Every interface shows the same tasks",
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
        "A message is answered",
        "メッセージに応答する",
        "3.1.1, 4.1.1",
        protocol.send,
    ),
    Check(
        "get",
        Area.PROTOCOL,
        "A task can be got",
        "タスクを取得できる",
        "3.1.3, 3.2.4",
        protocol.get,
    ),
    Check(
        "unknown-task",
        Area.PROTOCOL,
        "A task that is not there is not found",
        "存在しないタスクはエラーになる",
        "3.1.3, 5.4",
        protocol.unknown_task,
    ),
    Check(
        "list",
        Area.PROTOCOL,
        "Tasks can be listed by who may",
        "タスク一覧を権限のある者に返す",
        "3.1.4, 13.1",
        protocol.list_tasks,
    ),
    Check(
        "message-to-unknown",
        Area.PROTOCOL,
        "A message to an unknown task is refused",
        "存在しないタスクへのメッセージを拒否",
        "3.4.2",
        protocol.message_to_unknown,
    ),
    Check(
        "message-to-ended",
        Area.PROTOCOL,
        "A task that is over takes no messages",
        "終了したタスクへのメッセージを拒否",
        "3.1.1",
        protocol.message_to_ended,
    ),
    Check(
        "cancel-ended",
        Area.PROTOCOL,
        "A task that is over cannot be canceled",
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
        "The same message twice is worked on once",
        "冪等性保証（同じIDの重複チェック）",
        "3.3.1, beyond it: safe retries",
        protocol.idempotent,
    ),
    Check(
        "versions",
        Area.PROTOCOL,
        "Versions that are not spoken are refused",
        "未対応バージョンを拒否",
        "3.6.2",
        protocol.versions,
    ),
    Check(
        "stream",
        Area.STREAMING,
        "Streams are right, or refused if not declared",
        "SSEストリーミング",
        "3.1.2, 3.3.4, 11.7",
        streaming.stream,
    ),
    Check(
        "resume",
        Area.STREAMING,
        "A lost stream goes on without a gap",
        "再接続しても取りこぼさない",
        "3.5.2, beyond it: Last-Event-ID",
        streaming.resume,
    ),
    Check(
        "subscribe",
        Area.STREAMING,
        "A task outlives its stream",
        "切断してもタスクは続く",
        "3.1.6, 3.5.2",
        streaming.subscribe,
    ),
    Check(
        "https",
        Area.SECURITY,
        "Everything goes over HTTPS",
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
        "The card says how to authenticate",
        "認証スキーム（OAuth2/JWT）を宣言",
        "7.3, 4.5.1",
        security.auth_declared,
    ),
    Check(
        "auth-enforced",
        Area.SECURITY,
        "Credentials are checked",
        "認証スキーム（OAuth2/JWT）を実装",
        "7.4, 3.3.2",
        security.auth_enforced,
    ),
    Check(
        "extended-card",
        Area.SECURITY,
        "The extended card is for known callers",
        "拡張Agent Cardは認証後のみ",
        "13.3, 3.1.11",
        security.extended_card,
    ),
    Check(
        "foreign-task",
        Area.SECURITY,
        "Tasks of others do not exist",
        "他者のタスクは存在しないものとして扱う",
        "13.1, 3.3.2",
        security.foreign_task,
    ),
    Check(
        "foreign-context",
        Area.SECURITY,
        "Contexts of others are refused",
        "他者のcontextIdを拒否",
        "3.4.1, 13.1",
        security.foreign_context,
    ),
    Check(
        "push-targets",
        Area.PUSH,
        "Notifications go to public addresses alone",
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
        "Notifications that are not declared are refused",
        "未宣言のプッシュ通知を拒否",
        "3.3.4",
        security.push_undeclared,
    ),
    Check(
        "broken-json",
        Area.INPUT,
        "Broken JSON is refused",
        "壊れたJSONを拒否",
        "9.5, 13.4",
        input_.broken_json,
    ),
    Check(
        "wrong-params",
        Area.INPUT,
        "Wrong types are refused",
        "誤った型を拒否",
        "3.3.2, 9.5",
        input_.wrong_params,
    ),
    Check(
        "unknown-method",
        Area.INPUT,
        "Unknown methods are refused",
        "未知のメソッドを拒否",
        "9.5, 11.6",
        input_.unknown_method,
    ),
    Check(
        "deep-nesting",
        Area.INPUT,
        "Deeply nested JSON is refused",
        "過度に入れ子のJSONを拒否",
        "13.4",
        input_.deep_nesting,
    ),
    Check(
        "header-limit",
        Area.INPUT,
        "Headers are bounded",
        "ヘッダーサイズを制限",
        "13.4",
        input_.header_limit,
    ),
    Check(
        "size-limit",
        Area.INPUT,
        "Requests are bounded",
        "リクエストサイズを制限",
        "13.4",
        input_.size_limit,
    ),
)
UNSEEN = (
    Unseen(
        "tracing",
        "Distributed tracing by trace id",
        "trace_idによる分散トレーシングを設定",
        "3.2.6",
        "that a traceparent header which comes in is in the logs and in what the agent calls",
    ),
    Unseen(
        "retries",
        "Retries with exponential backoff",
        "リトライ（指数バックオフ）を実装",
        "13.2",
        "that notifications and calls of other agents are repeated with growing pauses and a bound",
    ),
    Unseen(
        "circuit-breaker",
        "A circuit breaker before what fails again and again",
        "サーキットブレーカーパターンを適用",
        "13.2",
        "that the agent stops calling a remote agent or receiver that keeps failing, for a while",
    ),
    Unseen(
        "webhook-signature",
        "Receivers verify signatures of notifications",
        "Webhookには署名検証を実装",
        "13.2, 4.3.3",
        "that notifications are signed, and that receivers compare in constant time, refuse old "
        "ones and take each one once",
    ),
    Unseen(
        "memory-scope",
        "Memory is filtered by who asks",
        "メモリスコープを適切にフィルタリング",
        "13.1",
        "what of a session's state and memory is handed to each agent, remote ones above all",
    ),
    Unseen(
        "least-privilege",
        "Agents have no more rights than they need",
        "最小権限",
        "7.5",
        "the roles, keys and network of the process, and which tools need a person's approval",
    ),
    Unseen(
        "intents",
        "Agents are built around intents, schemas first",
        "インテント駆動・スキーマファースト",
        "4.4.5",
        "the tree of agents itself: `acc check MODULE:AGENT` looks at it",
    ),
    Unseen(
        "context",
        "Caller, trace id and time go along with every request",
        "コンテキスト透過性",
        "3.2.6",
        "what the logs tell of one request across all agents",
    ),
    Unseen(
        "rate-limit",
        "Callers cannot use up the server",
        "レート制限",
        "13.4",
        "limits of requests, tasks and streams of one caller; a polite visitor does not try them",
    ),
    Unseen(
        "restart",
        "A task survives the process that works on it",
        "プロセスが落ちてもタスクが残る",
        "3.5.2",
        "a task at work while the process is killed: after the restart it goes on or has failed",
    ),
    Unseen(
        "replicas",
        "Several servers agree about a task",
        "複数サーバー間の整合性",
        "3.1.5",
        "a task that is canceled at one server while its agent runs at another",
    ),
    Unseen(
        "retention",
        "History and events do not grow for ever",
        "履歴の保存期間",
        "13.4",
        "how long tasks, messages and events are kept, and who deletes them",
    ),
    Unseen(
        "file-references",
        "Files by reference are fetched with care",
        "ファイル参照のSSRF対策",
        "14.1.1",
        "that the URL of a file part is checked as that of a notification is",
    ),
    Unseen(
        "logs",
        "Logs hold no secrets",
        "ログに秘密情報を残さない",
        "7.1, 13.4",
        "the logs of a visit with a token: neither the token nor the messages belong there",
    ),
)
