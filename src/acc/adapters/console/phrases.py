"""Errors and reasons in Japanese. They contain values, so they are patterns and not keys."""

import re
from collections.abc import Mapping

from acc.adapters.console.texts import JAPANESE, translate
from acc.domain.errors import AccError

#: What an error means, by its code; the original text follows in parentheses.
_BY_CODE: Mapping[str, str] = {
    "address_refused": "このアドレスへの接続は許可されていません。",
    "agent_failed": "エージェントの実行に失敗しました。",
    "circuit_open": "相手のサーバーで失敗が続いたため、呼び出しを一時停止しています。",
    "invalid_input": "入力が正しくありません。",
    "invalid_tree": "エージェントの構成が正しくありません。",
    "model_failed": "モデルの呼び出しに失敗しました。",
    "not_found": "見つかりません。",
    "nothing_pending": "回答を待っている要求はありません。",
    "permission_denied": "この操作は許可されていません。",
    "remote_failed": "相手のサーバーの呼び出しに失敗しました。",
    "replay_mismatch": "記録と異なるため再開できません。",
    "run_damaged": "評価のファイルが壊れています。",
    "session_busy": "セッションは実行中です。終わるまで待つか、停止してください。",
    "session_conflict": "セッションは別の処理によって変更されました。",
    "session_waiting": "セッションは回答を待っています。先に回答してください。",
    "stale_approval": "この要求は変わったか、すでに回答されています。",
    "storage_failed": "保存先の読み書きに失敗しました。",
    "unauthenticated": "認証が必要です。",
    "unavailable": "現在利用できません。",
}
_OTHER_ERROR = "エラーが発生しました。"

#: What a sentence does, as a reader says it.
_ACTS: Mapping[str, str] = {
    "set": "規則の設定",
    "change": "規則の変更",
    "lift": "規則の解除",
    "correct": "事実の訂正",
    "once": "今回だけの指定",
    "state": "事実",
    "other": "その他",
}

_PATTERNS: Mapping[str, str] = {
    # Access and forms
    r"unknown host: open the URL that the command printed, or add --allow-host NAME": (
        "不明なホストです。表示された URL を開くか、--allow-host NAME を付けて起動してください"
    ),
    r"method not allowed|Method Not Allowed": "このメソッドは使えません",
    r"requests of other sites are refused": "他のサイトからの要求は受け付けません",
    r"a token is required: see /login": "トークンが必要です。/login を開いてください",
    r"the console is read-only: start it without --read-only": (
        "コンソールは読み取り専用です。--read-only なしで起動してください"
    ),
    r"the console is read-only; labels cannot be stored": (
        "コンソールは読み取り専用のため、ラベルを保存できません"
    ),
    r"Not Found": "ページが見つかりません",
    r"a form has at most (\d+) bytes": r"フォームは \1 バイトまでです",
    r"the request is incomplete": "要求が途中で切れました",
    r"the form is not valid": "フォームの形式が正しくありません",
    r"the message is empty": "メッセージが空です",
    # Sessions
    r"the session has a run; stop it first": "セッションは実行中です。先に停止してください",
    r"this console runs nothing in the session": (
        "このコンソールはこのセッションで何も実行していません"
    ),
    r"one of the two sessions has a run; wait until it ends": (
        "どちらかのセッションが実行中です。終わるまで待ってください"
    ),
    r"the session has no event (.*)": r"セッションにイベント \1 はありません",
    r"there is no such session; it may have been deleted": (
        "セッションが見つかりません。削除された可能性があります"
    ),
    r"the session has no such file": "セッションにそのファイルはありません",
    r"the message has no such file": "メッセージにそのファイルはありません",
    r"event (.*) is not one of the newest memories of the session": (
        r"イベント \1 はこのセッションの最新のメモリに含まれません"
    ),
    r"the console was started without an agent(; it cannot run sessions)?": (
        "コンソールはエージェントなしで起動されたため、実行できません"
    ),
    r"the console is stopping; try again when it runs again": (
        "コンソールは停止中です。再起動後にもう一度試してください"
    ),
    r"session (.*) has a run; wait until it ends, or stop it": (
        r"セッション \1 は実行中です。終わるまで待つか、停止してください"
    ),
    r"the run of session (.*) was canceled": r"セッション \1 の実行は取り消されました",
    r"the run failed: (.*); see the log": r"実行に失敗しました：\1。ログを参照してください",
    r"the run was stopped in the console": "実行はコンソールで停止されました",
    # Chat
    r"select an agent, or enter an A2A address": (
        "エージェントを選ぶか、A2A アドレスを入力してください"
    ),
    r"the two partners are the same; select another agent or memory": (
        "二つの相手が同じです。別のエージェントかメモリを選んでください"
    ),
    r"the console has no agent for (.*)": r"コンソールに \1 のエージェントはありません",
    r"(.*) has no memory that (.*) could replace": r"\1 には \2 に置き換えられるメモリがありません",
    r"only messages that begin a turn can be edited": (
        "編集できるのは、ターンを始めるメッセージだけです"
    ),
    r"the names of the agents must differ": "エージェントの名前は互いに異なる必要があります",
    # Approvals
    r"this request is no longer pending: it was answered or canceled": (
        "この要求はもう待っていません。回答済みか取り消し済みです"
    ),
    r"this request has changed since the page was loaded; reload and check": (
        "ページを読み込んだ後に要求が変わりました。再読み込みして確認してください"
    ),
    r"the task no longer waits: it was answered or canceled": (
        "タスクはもう待っていません。回答済みか取り消し済みです"
    ),
    r"decision must be approve or deny, got (.*)": r"判断は承認か却下です。受け取った値：\1",
    r"the answer is empty; enter a value": "回答が空です。値を入力してください",
    r"the arguments are not valid JSON: (.*)": r"引数は正しい JSON ではありません：\1",
    r"the arguments must be a JSON object": "引数は JSON オブジェクトにしてください",
    r"May (.*) be called\?": r"\1 を呼び出してもよいですか？",
    r"the edited arguments for (.*) are invalid: (.*); pass all arguments of the tool\. "
    r"Request .* is still pending": (
        r"\1 の編集した引数が正しくありません：\2。"
        r"すべての引数を指定してください。要求はまだ回答待ちです"
    ),
    # Tasks and servers
    r"there is no such task; it may have been deleted": (
        "タスクが見つかりません。削除された可能性があります"
    ),
    r"enter the URL of a server": "サーバーの URL を入力してください",
    # Evaluations
    r"the console was started without --runs FOLDER": (
        "評価を表示するには --runs FOLDER を付けて起動してください"
    ),
    r"there is no such evaluation run": "その評価はありません",
    r"there is no such file": "そのファイルはありません",
    r"there is no such agent": "そのエージェントはありません",
    r"the run has no turn (.*) of the episode (.*)": (
        r"この評価のエピソード \2 にターン \1 はありません"
    ),
    r"there is no metric (.*)": r"指標 \1 はありません",
    r"the run has no such page; write its report first": (
        "この評価にそのページはありません。先にレポートを作成してください"
    ),
    r"cannot read the folder (.*): (.*)": r"フォルダー \1 を読めません：\2",
    r"the label must be yes, no or skip": "ラベルは「はい」「いいえ」「保留」のどれかです",
    r"the sample has no such item": "標本にその項目はありません",
    r"--rater must be .*, got (.*)": (
        r"名前は英数字・ハイフン・下線の 1〜32 文字です。受け取った値：\1"
    ),
    # Reasons of memories
    **{rf"read as {act} \((.*)\)": rf"読み取り：{name}（\1）" for act, name in _ACTS.items()},
    **{rf"{act} \((.*)\)": rf"{name}（\1）" for act, name in _ACTS.items()},
    r"moved from (.*)": r"\1 から移動",
    r"moved to (.*)": r"\1 へ移動",
    r"recalled: it matches the message": "想起：メッセージに一致",
    r"describes this turn": "このターンの内容",
    r"described the turn before": "前のターンの内容",
    r"dropped: the budget is full": "破棄：上限に達した",
    r"the budget is full": "上限に達した",
    r"not recalled for this message": "このメッセージでは想起されない",
    r"superseded": "置き換え済み",
    r"user,? turn (\d+)": r"ユーザー、ターン \1",
    r"agent turn (\d+)": r"エージェント、ターン \1",
    r"tool turn (\d+)": r"ツール、ターン \1",
    r"superseded: a later sentence changed, lifted or corrected it": (
        "置き換え済み：後の文が変更・解除・訂正した"
    ),
    r"duplicate: the view already contains it": "重複：すでに含まれている",
    r"(\w+): (\d+) tokens do not fit": r"\2 トークンが収まらない",
    r"([\d,]+) bytes, (.*)": r"\1 バイト、\2",
}
#: A finding of the search begins with a field or the id of a passage.
_PREFIX = re.compile(r"([\w.-]+)\. (.+)", re.DOTALL)
_COMPILED = tuple((re.compile(pattern, re.DOTALL), text) for pattern, text in _PATTERNS.items())


def translate_phrase(text: str, language: str) -> str:
    """Return a reason or a message of the console in a language, unchanged if it is not known."""
    if language != "ja":
        return text
    if text in JAPANESE:
        return translate(text, language)
    for pattern, translation in _COMPILED:
        found = pattern.fullmatch(text)
        if found is not None:
            return found.expand(translation)
    prefixed = _PREFIX.fullmatch(text)
    if prefixed is not None:
        return f"{prefixed[1]}：{translate_phrase(prefixed[2], language)}"
    return text


def describe_error(error: AccError, language: str) -> str:
    """Return an error in a language; one that is not known keeps its text in parentheses."""
    text = str(error)
    translated = translate_phrase(text, language)
    if language != "ja" or translated != text:
        return translated
    return f"{_BY_CODE.get(error.code, _OTHER_ERROR)}（{text}）"
