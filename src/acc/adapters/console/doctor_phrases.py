"""Observations and fixes of the doctor in Japanese. `{}` stands for a value."""

import re
from collections.abc import Mapping, Sequence

_CREDENTIALS = "サーバーが認証情報を要求しています。{} で指定してください"

_CARD: Mapping[str, str] = {
    "no card: {}": "カードがありません：{}",
    "{} cannot be read: {}": "{} を読めません：{}",
    "{} gave {}": "{} の応答は {} です",
    "{} at {} gave {}": "{}（{}）の応答は {} です",
    "{} is not a JSON object (content type {})": (
        "{} は JSON オブジェクトではありません（Content-Type：{}）"
    ),
    "serve the card as JSON at {}": "カードを JSON として {} で公開してください",
    "the card is only at {}: {}": "カードが {} にしかありません：{}",
    "serve the same card at {}, where 0.3 and 1.0 clients look for it": (
        "0.3 と 1.0 のクライアントが探す {} でも同じカードを公開してください"
    ),
    "{} has the content type {}": "{} の Content-Type は {} です",
    "send the card as application/json": "カードは application/json で送ってください",
    "an unreadable response at {}": "{} の応答を読めません",
    "no card at {}": "{} にカードがありません",
    "serve the card there too: clients older than 0.3 only look at {}": (
        "そこでもカードを公開してください。0.3 より古いクライアントは {} しか見ません"
    ),
    "{} is missing or empty": "{} がないか空です",
    "add the fields that the specification requires": "仕様の必須項目を追加してください",
    "offers {}": "対応バージョン：{}",
    "list a 1.0 interface in supportedInterfaces; both versions can share one URL": (
        "supportedInterfaces に 1.0 のインターフェースを追加してください。二つのバージョンで"
        "同じ URL を使えます"
    ),
    "{} has no {}": "{} に {} がありません",
    "the description of {} is short: {}": "{} の説明が短すぎます：{}",
    "{} is not unique": "{} が重複しています",
    "{} described": "説明のあるスキル：{} 件",
    "give each skill a unique id, a name, tags, and a description from which another agent can "
    "decide when to call it": (
        "各スキルに一意の id、名前、タグと、いつ呼ぶべきかを他のエージェントが判断できる説明を"
        "付けてください"
    ),
    "input {}, output {}": "入力 {}、出力 {}",
    'declare media types such as "text/plain" and "application/json", and validate the input '
    "against them": (
        '"text/plain" や "application/json" のようなメディアタイプを宣言し、入力を検証してください'
    ),
    "interface {} has no {}": "インターフェース {} に {} がありません",
    "{} is not an absolute URL": "{} は絶対 URL ではありません",
    "{} is on another host than the given URL": "{} は指定された URL と別のホストです",
    "no interface": "インターフェースがありません",
    "declare binding, version and the public URL of the server (with acc serve: --public-url)": (
        "バインディング、バージョン、サーバーの公開 URL を宣言してください（acc serve では"
        " --public-url）"
    ),
    "schemas of inputs in {}": "入力のスキーマ：{}",
    "not seen: the card declares media types only": "未確認：カードの宣言はメディアタイプだけです",
    "declare a JSON Schema for the input and output of each skill in an extension of the card": (
        "各スキルの入出力の JSON Schema をカードの拡張で宣言してください"
    ),
    "the same task over {}": "同じタスクを返すインターフェース：{}",
    "not tested: {}": "未検査：{}",
    "serve the same tasks over every interface of the card, or remove the interface": (
        "カードの全インターフェースで同じタスクを返すか、そのインターフェースを削除してください"
    ),
    "no ETag": "ETag がありません",
    "no Cache-Control with max-age": "max-age 付きの Cache-Control がありません",
    "If-None-Match with the ETag gave {} instead of 304": (
        "ETag 付きの If-None-Match の応答が 304 ではなく {} です"
    ),
    "ETag, {}, 304 when unchanged": "ETag あり、{}、変更がなければ 304",
    "send ETag and Cache-Control: max-age with the card, and 304 if it is unchanged": (
        "カードに ETag と Cache-Control: max-age を付け、変更がなければ 304 を返してください"
    ),
    "the card is not signed, which is optional": "カードに署名がありません（署名は任意です）",
    "signature {} has no {}": "署名 {} に {} がありません",
    "signature {} has the algorithm none": "署名 {} のアルゴリズムが none です",
    "{}, well-formed; `acc card --key` verifies them": (
        "{} 件、形式は正しい。検証は `acc card --key` で行えます"
    ),
    "sign the canonical JSON (RFC 8785) of the card as a JWS with alg and kid": (
        "カードの正規化 JSON（RFC 8785）に、alg と kid を付けて JWS で署名してください"
    ),
    "the card has no interface that acc supports": (
        "acc が対応するインターフェースがカードにありません"
    ),
    "the card lists {}; supported are JSONRPC and HTTP+JSON of 1.0 and 0.3": (
        "カードにあるのは {} です。対応しているのは JSONRPC と HTTP+JSON の 1.0 と 0.3 です"
    ),
    "the server has no valid card": "有効なカードがありません",
    "{} gives HTTP 404: the path of the interface on the card does not exist there; pass the URL "
    "under which the agent is reached": (
        "{} は HTTP 404 を返します。カードのインターフェースのパスが存在しません。"
        "エージェントに到達できる URL を指定してください"
    ),
}

_PROTOCOL: Mapping[str, str] = {
    "a task, {}": "タスク、{}",
    "a message": "メッセージ",
    "a message without a task": "タスクのないメッセージ",
    "neither a task nor a message": "タスクでもメッセージでもありません",
    "the message has no {}": "メッセージに {} がありません",
    "the message was rejected: {}": "メッセージが拒否されました：{}",
    "reply with a task or a message in the form of the binding": (
        "バインディングの形式で、タスクかメッセージを返してください"
    ),
    "the task has no {}": "タスクに {} がありません",
    "unknown state: {}": "不明な状態：{}",
    "1.0 requires {}, got {}": "1.0 では {} が必要ですが、{} でした",
    "the task of a short greeting is {}": "短いあいさつへのタスクの状態が {} です",
    "the timestamp {} is not UTC such as 2026-01-01T00:00:00.000Z": (
        "時刻 {} が UTC（例：2026-01-01T00:00:00.000Z）ではありません"
    ),
    "send id, contextId and status in the form of the protocol version, and times in UTC": (
        "id、contextId、status をプロトコルのバージョンの形式で、時刻を UTC で送ってください"
    ),
    "the same task, {}": "同じタスク、{}",
    "the task, {}": "そのタスク、{}",
    "the new task cannot be read: {}": "新しいタスクを取得できません：{}",
    "{} messages although historyLength is 0": (
        "historyLength が 0 なのにメッセージが {} 件あります"
    ),
    "store tasks and return them by id; a historyLength of 0 requests no history": (
        "タスクを保存し、id で返してください。historyLength が 0 なら履歴は不要です"
    ),
    "respond with TaskNotFoundError (-32001, HTTP 404) for an unknown task": (
        "存在しないタスクには TaskNotFoundError（-32001、HTTP 404）を返してください"
    ),
    "an unknown task was returned ({})": "存在しないタスクが返されました（{}）",
    "an unknown task was returned": "存在しないタスクが返されました",
    "0.3 cannot list tasks": "0.3 ではタスクを一覧できません",
    "rejected for anonymous callers: {}": "匿名の呼び出しは拒否されます：{}",
    "rejected: {}": "拒否：{}",
    "rejected with {}": "{} で拒否",
    "rejected with {} instead of 401": "401 ではなく {} で拒否",
    "rejected, but with {} instead of {}": "{1} ではなく {0} で拒否されました",
    "the page has no {}": "ページに {} がありません",
    "anonymous callers can list the tasks of all callers": (
        "匿名の呼び出し元が、全員のタスクを一覧できます"
    ),
    "{} tasks": "タスク {} 件",
    "return tasks, nextPageToken, pageSize and totalSize to authenticated callers": (
        "認証された呼び出し元に tasks、nextPageToken、pageSize、totalSize を返してください"
    ),
    "respond with TaskNotFoundError (-32001); clients cannot choose task ids": (
        "TaskNotFoundError（-32001）を返してください。タスクの id はクライアントが決められません"
    ),
    "the message was accepted although its task does not exist ({})": (
        "タスクが存在しないのにメッセージが受理されました（{}）"
    ),
    "reject it with UnsupportedOperationError (-32004); a new task in the same context can "
    "continue": (
        "UnsupportedOperationError（-32004）で拒否してください。続きは同じコンテキストの新しいタスクで"
        "行えます"
    ),
    "the task continued although it had ended ({})": "終了したタスクが継続されました（{}）",
    "reject it with TaskNotCancelableError (-32002)": (
        "TaskNotCancelableError（-32002）で拒否してください"
    ),
    "a task that had ended was canceled ({})": "終了したタスクが取り消されました（{}）",
    "no task to cancel: {}": "取り消すタスクがありません：{}",
    "the task ended before it could be canceled": "取り消す前にタスクが終了しました",
    "cancel gave {}": "取り消しの応答は {} です",
    "canceled, and it stays canceled": "取り消され、その状態が保たれます",
    "first canceled, then {}": "一度取り消された後、{} になりました",
    "the task is {} after it was canceled": "取り消し後のタスクの状態が {} です",
    "end the task as canceled, and ignore later updates of its agent": (
        "タスクを canceled で終了し、その後のエージェントの更新を無視してください"
    ),
    "a duplicate messageId returns the same task": "同じ messageId には同じタスクが返ります",
    "the duplicate message is rejected: {}": "重複したメッセージは拒否されます：{}",
    "a duplicate messageId was processed twice, which the specification allows": (
        "同じ messageId が二度処理されました（仕様上は許されます）"
    ),
    "store the messageId per caller, and return the existing task for a duplicate": (
        "messageId を呼び出し元ごとに保存し、重複には既存のタスクを返してください"
    ),
    "0.3 requests have no version": "0.3 の要求にはバージョンがありません",
    "a request of version 99.0 was accepted ({})": "バージョン 99.0 の要求が受理されました（{}）",
    "a 1.0 method without A2A-Version is accepted as 1.0": (
        "A2A-Version のない 1.0 のメソッドが 1.0 として受理されます"
    ),
    "respond with VersionNotSupportedError (-32009) to an unsupported version, and treat a request "
    "without A2A-Version as 0.3": (
        "対応しないバージョンには VersionNotSupportedError（-32009）を返し、"
        "A2A-Version のない要求は 0.3 として扱ってください"
    ),
    "an internal error: {}": "内部エラー：{}",
    "the server requires other credentials: {}": "別の認証情報が必要です：{}",
    "the first message got no reply ({}); see the check send": (
        "最初のメッセージに応答がありません（{}）。検査 send を参照してください"
    ),
    "the first message was rejected: {}; see the check send": (
        "最初のメッセージが拒否されました：{}。検査 send を参照してください"
    ),
    "the agent replies without a task": "エージェントはタスクなしで応答します",
    "the agent replied without a task": "エージェントはタスクなしで応答しました",
    "no task: {}": "タスクがありません：{}",
    "the task is {}": "タスクの状態は {} です",
    "the server requires credentials; pass them with {}": _CREDENTIALS,
}

_STREAMING: Mapping[str, str] = {
    "the card does not declare streaming": "カードがストリーミングを宣言していません",
    "there was no stream; see the check stream": (
        "ストリームがありません。検査 stream を参照してください"
    ),
    "there was no stream ({}); see the check stream": (
        "ストリームがありません（{}）。検査 stream を参照してください"
    ),
    "there was no stream ({})": "ストリームがありません（{}）",
    "there was no stream": "ストリームがありません",
    "the stream contains no task": "ストリームにタスクがありません",
    "reject it with UnsupportedOperationError (-32004), or declare streaming": (
        "UnsupportedOperationError（-32004）で拒否するか、ストリーミングを宣言してください"
    ),
    "the server streams although the card does not declare it ({})": (
        "カードで宣言していないのにストリームを返します（{}）"
    ),
    "{} with content type {} instead of a stream": "ストリームではなく {}（Content-Type：{}）",
    "{} events, {}": "イベント {} 件、{}",
    "{} items: {}": "{} 件：{}",
    "the stream has no events": "ストリームにイベントがありません",
    "the stream is empty": "ストリームが空です",
    "{} events have no known content": "内容が不明なイベントが {} 件あります",
    "an error in the stream: {}": "ストリーム内のエラー：{}",
    "the first event is neither a task nor a message": (
        "最初のイベントがタスクでもメッセージでもありません"
    ),
    "the stream starts with {}": "ストリームが {} で始まります",
    "the stream did not end when the task did": "タスクが終わってもストリームが終わりません",
    "the stream did not end after {} events": "イベント {} 件の後もストリームが終わりません",
    "it ended while the task was {}": "タスクが {} の間にストリームが終わりました",
    "respond with text/event-stream: first the task (or one message), then its updates, and end "
    "the stream when the task ends or needs input": (
        "text/event-stream で、最初にタスク（またはメッセージ一つ）、続けて更新を送り、"
        "タスクが終わるか入力を待つときにストリームを終えてください"
    ),
    "stream the updates of the task": "タスクの更新をストリームで送ってください",
    "start the stream with the task or a message": "ストリームをタスクかメッセージで始めてください",
    "start it with the task or a message": "タスクかメッセージで始めてください",
    "events have no id, so clients cannot recover missed events": (
        "イベントに id がないため、受け取れなかったイベントを取り戻せません"
    ),
    "the stream had only one event": "ストリームのイベントは一つだけでした",
    "subscribing after the first event gave {}": "最初のイベントの後の購読の応答は {} です",
    "the {} missed events were sent once and in order": (
        "受け取れなかった {} 件のイベントが、順に一度ずつ送られました"
    ),
    "missed events: {}; received: {}": "受け取れなかったイベント：{}。受信：{}",
    "number the events of a task, send the number as event id, store the events, and send those "
    "after Last-Event-ID to a client that subscribes again": (
        "タスクのイベントに番号を付けて id として送り、保存してください。"
        "再購読したクライアントには Last-Event-ID より後のものを送ってください"
    ),
    "the subscription does not start with the current task": "購読が現在のタスクで始まりません",
    "the task is {} after its client disconnected": "クライアントの切断後、タスクの状態が {} です",
    "subscribed again after disconnecting; the task is {}": (
        "切断後に再購読でき、タスクの状態は {} です"
    ),
    "not subscribed: {}": "購読できません：{}",
    "the task continued and is {}; subscribing to it is then rejected": (
        "タスクは継続して {} になり、その後の購読は拒否されます"
    ),
    "continue the task when a client disconnects, start a subscription with the current task, and "
    "reject it with UnsupportedOperationError (-32004) if the task has ended": (
        "クライアントが切断してもタスクを続け、購読は現在のタスクで始め、"
        "終了したタスクの購読は UnsupportedOperationError（-32004）で拒否してください"
    ),
}

_SECURITY: Mapping[str, str] = {
    "{} is not encrypted": "{} は暗号化されていません",
    "all URLs use https": "すべての URL が https です",
    "http, which is acceptable on a local machine only": (
        "http です（同じマシン内でのみ許容されます）"
    ),
    "use HTTPS (TLS 1.2 or later), and https URLs in the card": (
        "HTTPS（TLS 1.2 以降）を使い、カードの URL も https にしてください"
    ),
    "the URL uses http": "URL が http です",
    "Strict-Transport-Security is sent": "Strict-Transport-Security が送られます",
    "no Strict-Transport-Security": "Strict-Transport-Security がありません",
    "send the header Strict-Transport-Security": (
        "ヘッダー Strict-Transport-Security を送ってください"
    ),
    "the server requires credentials, but the card does not declare a scheme": (
        "認証情報が必要なのに、カードが方式を宣言していません"
    ),
    "no security scheme: everyone who reaches the server can use it": (
        "認証方式がありません。サーバーに到達できる人は誰でも使えます"
    ),
    "schemes are declared, but none is required": (
        "認証方式は宣言されていますが、必須ではありません"
    ),
    "only {}, which cannot expire or be limited": "{} だけです（期限や範囲を付けられません）",
    "declare OAuth2, OpenID Connect or bearer tokens in securitySchemes, and require them": (
        "securitySchemes に OAuth2、OpenID Connect かベアラートークンを宣言し、必須にしてください"
    ),
    "not seen: the card declares no scheme": "未確認：カードに認証方式の宣言がありません",
    "not seen: the card declares {}": "未確認：カードの宣言は {} です",
    "bearer tokens with the format JWT": "JWT 形式のベアラートークン",
    "the given token is a JWT": "指定されたトークンは JWT です",
    "use tokens that expire and have scopes, from an OAuth2 or OpenID Connect provider": (
        "OAuth2 か OpenID Connect の、期限とスコープのあるトークンを使ってください"
    ),
    "the response header {} contains the trace id": "応答ヘッダー {} にトレース ID があります",
    "not seen: no response header contains the trace id": (
        "未確認：トレース ID を含む応答ヘッダーがありません"
    ),
    "continue the trace of the traceparent header in logs and outgoing calls, and return it in the "
    "header traceresponse": (
        "ヘッダー traceparent のトレースをログと外部呼び出しに引き継ぎ、ヘッダー traceresponse で"
        "返してください"
    ),
    "the card does not declare push notifications": "カードがプッシュ通知を宣言していません",
    "the card declares push notifications": "カードがプッシュ通知を宣言しています",
    "{} has the public keys": "{} に公開鍵があります",
    "not seen: {} gave {}; signatures with a shared secret cannot be seen from outside": (
        "未確認：{} の応答は {} です。共有秘密による署名は外から確認できません"
    ),
    "sign notifications; receivers compare in constant time, reject old notifications, and accept "
    "each one once": (
        "通知に署名してください。受信側は定数時間で比較し、古い通知を拒否し、各通知を一度だけ受け付けます"
    ),
    "the headers {}": "ヘッダー {}",
    "{} lists: {}": "{} の内容：{}",
    "not seen: no response has headers of a rate limit": (
        "未確認：レート制限のヘッダーを含む応答がありません"
    ),
    "with --token-env it may report more": "--token-env を付けると詳しく確認できることがあります",
    "limit requests, tasks and streams per caller; respond with 429 and Retry-After": (
        "要求、タスク、ストリームを呼び出し元ごとに制限し、429 と Retry-After を返してください"
    ),
    "{} reports circuits, and none is open": "{} がサーキットを報告し、開いているものはありません",
    "not seen: {} does not report circuits": "未確認：{} がサーキットを報告しません",
    "stop calling a remote agent or model that keeps failing, and try it again later": (
        "失敗が続くリモートエージェントやモデルの呼び出しを止め、後で再試行してください"
    ),
    "{}: {} is {}, next attempt {}": "{}：{} は {}、次の試行 {}",
    "restore the service that fails; the circuit closes after the next successful call": (
        "失敗しているサービスを復旧してください。次の呼び出しが成功すると閉じます"
    ),
    "the server requires no credentials; see auth-declared": (
        "認証情報が不要です。検査 auth-declared を参照してください"
    ),
    "{} are accepted: {}": "{} が受理されます：{}",
    "requests without credentials are accepted: {}": "認証情報のない要求が受理されます：{}",
    "wrong credentials are accepted: {}": "誤った認証情報が受理されます：{}",
    "401 without WWW-Authenticate": "401 に WWW-Authenticate がありません",
    "rejected without credentials ({}) and with wrong ones ({})": (
        "認証情報なし（{}）でも誤った認証情報（{}）でも拒否されます"
    ),
    "verify credentials first; respond with 401 and WWW-Authenticate": (
        "最初に認証情報を検証し、401 と WWW-Authenticate を返してください"
    ),
    "it is returned to anonymous callers": "匿名の呼び出し元に返されます",
    "{} returns it to anonymous callers": "{} が匿名の呼び出し元に返します",
    "return the extended card to authenticated callers only": (
        "拡張カードは認証された呼び出し元にだけ返してください"
    ),
    "respond with UnsupportedOperationError (-32004), or declare the extended card": (
        "UnsupportedOperationError（-32004）を返すか、拡張カードを宣言してください"
    ),
    "it exists although the card does not declare it ({})": (
        "カードで宣言していないのに存在します（{}）"
    ),
    "declared, but an authenticated caller gets {}": (
        "宣言されていますが、認証された呼び出し元への応答は {} です"
    ),
    "configure the card": "カードを設定してください",
    "rejected for anonymous callers ({}), returned to an authenticated caller": (
        "匿名の呼び出しは拒否され（{}）、認証された呼び出し元には返されます"
    ),
    "requires a second caller; pass a token with {}": (
        "二人目の呼び出し元が必要です。{} でトークンを指定してください"
    ),
    "another caller can read the task": "別の呼び出し元がタスクを読めます",
    "another caller can list the task": "別の呼び出し元がタスクを一覧できます",
    "the responses for a task of another caller ({}) and an unknown task ({}) differ": (
        "他人のタスクへの応答（{}）と存在しないタスクへの応答（{}）が異なります"
    ),
    "not found for another caller: {}": "別の呼び出し元には見つかりません：{}",
    "store the owner of each task, and respond to other callers exactly as for an unknown task": (
        "タスクの所有者を保存し、他の呼び出し元には存在しないタスクと同じ応答を返してください"
    ),
    "the task has no contextId": "タスクに contextId がありません",
    "another caller can continue the context ({})": (
        "別の呼び出し元がコンテキストを続けられます（{}）"
    ),
    "store the owner of each context, and reject it for other callers": (
        "コンテキストの所有者を保存し、他の呼び出し元を拒否してください"
    ),
    "{} is accepted: {}": "{} が受理されます：{}",
    "the metadata address of cloud providers is accepted: {}": (
        "クラウドのメタデータのアドレスが受理されます：{}"
    ),
    "the same address in another notation is accepted: {}": (
        "別表記の同じアドレスが受理されます：{}"
    ),
    "a private address is accepted: {}": "プライベートアドレスが受理されます：{}",
    "the server's own machine is accepted: {}": "サーバー自身のアドレスが受理されます：{}",
    "{} forbidden addresses rejected": "禁止されたアドレス {} 件を拒否",
    "resolve the address once, reject addresses that are not public unless the operator allows "
    "them, and connect to the checked address": (
        "名前解決は一度だけ行い、運用者が許可していない非公開アドレスを拒否し、検査したアドレスに"
        "接続してください"
    ),
    "reject it with PushNotificationNotSupportedError (-32003), or declare the capability": (
        "PushNotificationNotSupportedError（-32003）で拒否するか、機能を宣言してください"
    ),
    "the configuration was accepted ({})": "設定が受理されました（{}）",
    "a public https URL is rejected: {}": "公開の https URL が拒否されます：{}",
    "the configuration cannot be deleted: {}": "設定を削除できません：{}",
    "a configuration was created and deleted": "設定を作成し、削除できました",
    "accept a configuration with a public https URL (the server must resolve its name), and delete "
    "it on request": (
        "公開の https URL の設定を受け付け（サーバーが名前解決できる必要があります）、要求に"
        "応じて削除してください"
    ),
}

_INPUT: Mapping[str, str] = {
    "respond to invalid input with an error of the protocol, and log the details": (
        "不正な入力にはプロトコルのエラーを返し、詳細はログに残してください"
    ),
    "an unknown path gave {}": "存在しないパスの応答は {} です",
    "respond with 404": "404 を返してください",
    "respond with 431": "431 を返してください",
    "the server rejected the credentials ({}) and not the input; pass a token with {}": (
        "入力ではなく認証情報が拒否されました（{}）。{} でトークンを指定してください"
    ),
    "the response contains a stack trace": "応答にスタックトレースが含まれます",
    "it results in {}": "結果は {} です",
    "a client error is reported as an internal error: {}": (
        "クライアントの誤りが内部エラーとして報告されます：{}"
    ),
    "it was accepted ({})": "受理されました（{}）",
    "the connection was closed ({})": "接続が閉じられました（{}）",
    "the connection was closed ({}), and the server stopped responding": (
        "接続が閉じられ（{}）、サーバーが応答しなくなりました"
    ),
    "{}, and the server stopped responding": "{}。その後サーバーが応答しなくなりました",
    "limit the request size": "要求の大きさを制限してください",
    "{} MiB result in {}": "{} MiB の要求の結果は {} です",
    "rejected before it was read: {}": "読み込む前に拒否：{}",
    "a request of {} MiB is accepted: {}": "{} MiB の要求が受理されます：{}",
    "reject bodies beyond a limit (413) before they are read": (
        "上限を超える本文は、読み込む前に 413 で拒否してください"
    ),
    "a header of 100 kB results in {}": "100 kB のヘッダーの結果は {} です",
    "a header of 100 kB is accepted: {}": "100 kB のヘッダーが受理されます：{}",
    "limit headers to 32 kB (431)": "ヘッダーを 32 kB に制限してください（431）",
}

_GRPC: Mapping[str, str] = {
    "there is no A2A service": "A2A のサービスがありません",
    "the server has no A2A service": "サーバーに A2A のサービスがありません",
    "only a2a.v1.A2AService of version 0.3": "バージョン 0.3 の a2a.v1.A2AService だけです",
    "implement {} of a2a.proto": "a2a.proto の {} を実装してください",
    "implement {}": "{} を実装してください",
    "the health service reports {}": "ヘルスサービスの応答は {} です",
    "not seen": "未確認",
    "add grpc.health.v1.Health, so that load balancers know when to send calls": (
        "grpc.health.v1.Health を追加してください。ロードバランサーが呼び出しの可否を判断できます"
    ),
    "add reflection, so that tools such as grpcurl can call the server": (
        "リフレクションを追加してください。grpcurl などのツールで呼び出せるようになります"
    ),
    "return a task or a message": "タスクかメッセージを返してください",
    "store tasks, and return them to their callers": "タスクを保存し、呼び出し元に返してください",
    "return the status {}": "ステータス {} を返してください",
    "{}, without google.rpc.ErrorInfo": "{}、google.rpc.ErrorInfo がありません",
    "add ErrorInfo to the status details: reason TASK_NOT_FOUND, domain {}": (
        "ステータスの詳細に ErrorInfo（reason TASK_NOT_FOUND、domain {}）を追加してください"
    ),
    "version 0.3 does not define the metadata a2a-version": (
        "バージョン 0.3 にはメタデータ a2a-version の定義がありません"
    ),
    "a2a-version {} is answered with {}": "a2a-version {} への応答は {} です",
    "compare the metadata a2a-version with the supported versions": (
        "メタデータ a2a-version を対応バージョンと比較してください"
    ),
    "a message {}: {}": "メッセージ（{}）：{}",
    "without TLS, {}": "TLS なし（{}）",
    "without TLS, on this machine only": "TLS なし（同じマシン内のみ）",
    "without TLS, to another machine": "TLS なし（別のマシンへの通信）",
    "use TLS (1.2 or later)": "TLS（1.2 以降）を使ってください",
    "no token is given; pass one with {}": "トークンがありません。{} で指定してください",
    "no second caller is given; pass one with {}": (
        "二人目の呼び出し元がありません。{} で指定してください"
    ),
    "a message without a token: {}": "トークンなしのメッセージ：{}",
    "a message with a wrong token: {}": "誤ったトークンのメッセージ：{}",
    "UNAUTHENTICATED without and with a wrong token": (
        "トークンなしでも誤ったトークンでも UNAUTHENTICATED"
    ),
    "{}, as for a task that does not exist": "{}（存在しないタスクと同じ）",
    "the second caller gets {}": "二人目の呼び出し元への応答は {} です",
    "return NOT_FOUND for tasks of other callers": "他人のタスクには NOT_FOUND を返してください",
    "answered with {}": "応答は {} です",
    "{}, as for an error of the server": "{}（サーバーのエラーと同じ）",
    "return {}": "{} を返してください",
}

_TEMPLATES: Mapping[str, str] = {
    **_CARD,
    **_PROTOCOL,
    **_STREAMING,
    **_SECURITY,
    **_INPUT,
    **_GRPC,
}


def _compile(template: str) -> re.Pattern[str]:
    return re.compile("(.+)".join(map(re.escape, template.split("{}"))), re.DOTALL)


#: Templates with more words of their own come first: they are more specific.
_COMPILED = tuple(
    (_compile(template), translation)
    for template, translation in sorted(
        _TEMPLATES.items(), key=lambda item: -len(item[0].replace("{}", ""))
    )
)
#: Problems are separated by semicolons, which some templates contain themselves.
_OF_SEVERAL_PARTS = tuple(pair for pair in _COMPILED if ";" in pair[0].pattern)


def translate_finding(text: str, language: str) -> str:
    """Return an observation or a fix in a language; parts that are not known stay as they are."""
    if language != "ja":
        return text
    whole = _translate(text, _OF_SEVERAL_PARTS)
    return whole or "；".join(_translate(part, _COMPILED) or part for part in text.split("; "))


def _translate(text: str, templates: Sequence[tuple[re.Pattern[str], str]]) -> str:
    for pattern, translation in templates:
        found = pattern.fullmatch(text)
        if found is not None:
            return translation.format(*found.groups())
    return ""
