"""How well evidence is found again: by words, re-ranked by meaning, and by words and meaning.

A set of our own: statements of a working week, for each a cue in its words and one in others.
Run it with `python benchmarks/recall.py [EMBEDDINGS]`; `static` is the default.
"""

import asyncio
import sys
from collections.abc import Sequence

from acc.adapters.memory.bm25 import Bm25EvidenceStore
from acc.adapters.memory.hybrid import HybridEvidenceStore

from acc.bootstrap.memory import make_embedder
from acc.domain.value_objects.memory import Evidence

#: A statement, a cue that shares its words, a cue that asks in other words.
Entry = tuple[str, str, str]
ENGLISH: tuple[Entry, ...] = (
    (
        "The rollback window is 30 minutes.",
        "How long is the rollback window?",
        "How much time is there to revert a release?",
    ),
    (
        "Mara Lindqvist leads the incident.",
        "Who leads the incident?",
        "Who is in charge of the outage?",
    ),
    (
        "The checkout service returned errors from 09:14.",
        "When did checkout return errors?",
        "When did the shop start failing?",
    ),
    (
        "The database pool holds 120 connections.",
        "How many connections does the database pool hold?",
        "What is the maximum of open sessions to Postgres?",
    ),
    (
        "Customers were charged twice in 31 cases.",
        "In how many cases were customers charged twice?",
        "How many buyers paid double?",
    ),
    (
        "The vendor promised a patch by Thursday.",
        "When did the vendor promise a patch?",
        "What is the supplier's deadline for the fix?",
    ),
    (
        "Backups run every night at 02:00.",
        "When do backups run?",
        "At what hour is our data saved?",
    ),
    (
        "The change freeze ends on 12 March.",
        "When does the change freeze end?",
        "From which date may we deploy again?",
    ),
    (
        "The new laptop budget is 48,000 EUR.",
        "What is the laptop budget?",
        "How much money is there for computers?",
    ),
    (
        "Invoices above 5,000 EUR need two signatures.",
        "Which invoices need two signatures?",
        "When must a second person approve a bill?",
    ),
    (
        "The quarterly report goes to the board on Monday.",
        "When does the quarterly report go to the board?",
        "Which day do the directors get the figures?",
    ),
    (
        "Bed 14 is reserved for a patient from surgery.",
        "For whom is bed 14 reserved?",
        "Which place is kept for someone after an operation?",
    ),
    (
        "The pharmacy delivers insulin twice a day.",
        "How often does the pharmacy deliver insulin?",
        "How frequently do we receive the diabetes medicine?",
    ),
    (
        "The night shift starts at 22:00.",
        "When does the night shift start?",
        "What time do people who work late begin?",
    ),
    (
        "Visitors must sign in at the north gate.",
        "Where must visitors sign in?",
        "Where do guests register?",
    ),
    (
        "The malware came through a macro in a spreadsheet.",
        "How did the malware come in?",
        "What was the entry point of the virus?",
    ),
    (
        "The firewall blocks port 8443 since yesterday.",
        "Which port does the firewall block?",
        "Which traffic is no longer let through?",
    ),
    (
        "Two administrator accounts were disabled.",
        "How many administrator accounts were disabled?",
        "How many privileged users were locked?",
    ),
    (
        "The stolen laptop belonged to the sales team.",
        "Whose laptop was stolen?",
        "From which department was the missing computer?",
    ),
    (
        "Passwords expire after 90 days.",
        "When do passwords expire?",
        "How long is a login secret valid?",
    ),
    (
        "The training takes place in room B12.",
        "Where does the training take place?",
        "In which venue is the course held?",
    ),
    (
        "The cafeteria is closed for repairs until Friday.",
        "Until when is the cafeteria closed?",
        "When can we eat in the canteen again?",
    ),
    (
        "The lease of the warehouse ends in June.",
        "When does the lease of the warehouse end?",
        "Until which month may we rent the storage building?",
    ),
    (
        "The courier picks up parcels at 16:30.",
        "When does the courier pick up parcels?",
        "What is the latest time to send packages?",
    ),
    (
        "The flight to Lisbon was cancelled.",
        "Which flight was cancelled?",
        "Which journey by plane does not happen?",
    ),
    (
        "The translator charges 0.12 EUR per word.",
        "What does the translator charge?",
        "What is the price for text in another language?",
    ),
    (
        "The server room temperature rose to 31 degrees.",
        "To what did the server room temperature rise?",
        "How hot did it get in the data centre?",
    ),
    (
        "The audit found three missing receipts.",
        "How many receipts did the audit find missing?",
        "How many proofs of purchase could not be located?",
    ),
    (
        "Jonas resigned at the end of April.",
        "When did Jonas resign?",
        "Who quit his job in spring?",
    ),
    (
        "The printer on floor 4 is out of toner.",
        "Which printer is out of toner?",
        "Which machine needs new ink?",
    ),
)
JAPANESE: tuple[Entry, ...] = (
    (
        "切り戻し期限は25分です。",
        "切り戻し期限は何分ですか。",
        "リリースを元に戻せるのはいつまでですか。",
    ),
    (
        "障害対応の責任者は佐伯さんです。",
        "障害対応の責任者は誰ですか。",
        "トラブルを指揮しているのは誰ですか。",
    ),
    (
        "決済サービスは9時14分からエラーを返しました。",
        "決済サービスはいつからエラーを返しましたか。",
        "支払いの不具合はいつ始まりましたか。",
    ),
    (
        "データベースの接続数の上限は120です。",
        "データベースの接続数の上限はいくつですか。",
        "DBに同時につなげる数の最大値は。",
    ),
    (
        "二重請求は31件ありました。",
        "二重請求は何件ありましたか。",
        "重複して課金された顧客はどれくらいですか。",
    ),
    (
        "ベンダーは木曜までに修正版を出すと約束しました。",
        "ベンダーは修正版をいつまでに出しますか。",
        "業者のパッチの納期はいつですか。",
    ),
    (
        "バックアップは毎晩2時に実行されます。",
        "バックアップは何時に実行されますか。",
        "データの控えはいつ取りますか。",
    ),
    (
        "変更凍結は3月12日に終わります。",
        "変更凍結はいつ終わりますか。",
        "デプロイを再開できるのは何日からですか。",
    ),
    (
        "ノートパソコンの予算は600万円です。",
        "ノートパソコンの予算はいくらですか。",
        "端末購入に使える金額は。",
    ),
    (
        "50万円を超える請求書には署名が二つ必要です。",
        "どの請求書に署名が二つ必要ですか。",
        "二人の承認が要る支払いはどれですか。",
    ),
    (
        "四半期報告は月曜に役員会へ提出します。",
        "四半期報告はいつ役員会へ提出しますか。",
        "経営陣が数字を受け取る日は。",
    ),
    (
        "14番の病床は手術後の患者のために確保しています。",
        "14番の病床は誰のために確保していますか。",
        "オペを終えた人のベッドはどこですか。",
    ),
    (
        "薬局はインスリンを1日2回届けます。",
        "薬局はインスリンを何回届けますか。",
        "糖尿病の薬はどのくらいの頻度で来ますか。",
    ),
    ("夜勤は22時に始まります。", "夜勤は何時に始まりますか。", "遅番の人の出勤時刻は。"),
    ("来訪者は北門で受付をします。", "来訪者はどこで受付をしますか。", "お客様の登録場所は。"),
    (
        "マルウェアは表計算のマクロから侵入しました。",
        "マルウェアはどこから侵入しましたか。",
        "ウイルスの感染経路は。",
    ),
    (
        "ファイアウォールは昨日から8443番ポートを遮断しています。",
        "ファイアウォールはどのポートを遮断していますか。",
        "通信が通らなくなったのはどれですか。",
    ),
    (
        "管理者アカウントを二つ無効にしました。",
        "管理者アカウントをいくつ無効にしましたか。",
        "特権ユーザーは何人止めましたか。",
    ),
    (
        "盗まれたパソコンは営業部のものでした。",
        "盗まれたパソコンはどこのものでしたか。",
        "紛失した端末の持ち主の部署は。",
    ),
    (
        "パスワードは90日で失効します。",
        "パスワードは何日で失効しますか。",
        "暗証の有効期間はどれくらいですか。",
    ),
    ("研修はB12会議室で行います。", "研修はどこで行いますか。", "講習の会場はどの部屋ですか。"),
    (
        "食堂は修理のため金曜まで休みです。",
        "食堂はいつまで休みですか。",
        "社内でご飯を食べられるのはいつからですか。",
    ),
    (
        "倉庫の賃貸契約は6月に終わります。",
        "倉庫の賃貸契約はいつ終わりますか。",
        "保管場所を借りられるのは何月までですか。",
    ),
    (
        "宅配業者は16時30分に集荷します。",
        "宅配業者は何時に集荷しますか。",
        "荷物を送れる最終時刻は。",
    ),
    (
        "リスボン行きの便は欠航になりました。",
        "どの便が欠航になりましたか。",
        "飛ばなくなった飛行機はどれですか。",
    ),
    ("翻訳者の料金は1文字12円です。", "翻訳者の料金はいくらですか。", "外国語にする費用は。"),
    (
        "サーバー室の温度は31度まで上がりました。",
        "サーバー室の温度は何度まで上がりましたか。",
        "データセンターはどのくらい暑くなりましたか。",
    ),
    (
        "監査で領収書が三枚足りないとわかりました。",
        "監査で領収書は何枚足りませんでしたか。",
        "見つからない支払いの証拠はいくつですか。",
    ),
    (
        "長谷部さんは4月末に退職しました。",
        "長谷部さんはいつ退職しましたか。",
        "春に会社を辞めたのは誰ですか。",
    ),
    (
        "4階のプリンターはトナー切れです。",
        "トナー切れのプリンターはどれですか。",
        "インクの交換が要る機械は。",
    ),
)
RANKINGS = ("words", "re-ranked", "hybrid")


async def places(entries: Sequence[Entry], cue: int, ranking: str, embeddings: str) -> list[int]:
    """Return at which place each statement was found, 0 for not among the first 16."""
    store = Bm25EvidenceStore()
    if ranking != "words" and (embedder := make_embedder(embeddings)) is not None:
        store = HybridEvidenceStore(embedder=embedder, semantic_recall=ranking == "hybrid")
    every = [*ENGLISH, *JAPANESE]
    await store.add([Evidence(id=entry[0], turn_id=1, text=entry[0]) for entry in every])
    found: list[int] = []
    for entry in entries:
        ids = [c.evidence.id for c in await store.recall(entry[cue], limit=16)]
        found.append(ids.index(entry[0]) + 1 if entry[0] in ids else 0)
    return found


async def main(embeddings: str) -> None:
    """Print a line for each language, kind of cue and ranking."""
    for language, entries in (("English", ENGLISH), ("Japanese", JAPANESE)):
        for cue, kind in ((1, "same words"), (2, "other words")):
            for ranking in RANKINGS:
                found = await places(entries, cue, ranking, embeddings)
                first = sum(place == 1 for place in found)
                five = sum(0 < place <= 5 for place in found)
                mean = sum(1 / place for place in found if place) / len(found)
                print(
                    f"{language:8}  {kind:11}  {ranking:9}  first {first:2}/{len(found)}"
                    f"  in five {five:2}/{len(found)}  reciprocal rank {mean:.3f}"
                )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "static"))
