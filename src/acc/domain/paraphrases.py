"""Words that paraphrases exchange: synonyms, and words that add little to a claim.

Both lists are general English and Japanese, not those of a domain. A synonym of a word of the
document supports a word of a claim nearly as well as the word itself; a light word, such as "takes
place" or 行う, hardly counts if it is missing.
"""

from collections import defaultdict
from functools import lru_cache

from acc.domain.language import stem, term_list

_GROUPS = """
begin start commence launch open onset
end finish complete conclude stop over close
buy purchase order acquire
sell sold
get receive obtain got arrive
send ship dispatch mail deliver forward
deliver delivery arrive supply
reply respond answer responded
ask request demand want wish desire like
want prefer wish
tell inform notify report told let
inform told notify aware know
say state explain mention according said think believe
permit allow authorise authorize let may possible can
forbid forbidden prohibit ban disallow
return refund repay reimburse back brought
return bring brought back
pay cost price charge fee paid
cost price amount charge expense
fall fell drop decrease decline reduce dropped down sank
rise rose increase grow grew climb up raise
shrink shrank reduce smaller shrunk
repair fix mend
replace exchange swap change
broken defective faulty damaged dead fail failed broke down
damage damaged break broke
breakdown fail failed broke
big large huge
small little tiny
quick fast rapid
job position post role vacancy
work job
staff employee personnel worker workforce team
boss manager superior supervisor report chief
company firm business enterprise corporation
customer client buyer
child kid children
doctor physician
surgery operation operated
sick ill
allergy allergic
diabetes diabetic
ache pain
medicine drug medication
house home
flat apartment
lift elevator
car vehicle automobile
trip journey tour travel
leave depart go departure left
arrive reach come arrival
stay remain spend
meet meeting session
plan intend schedule planned going
postpone delay put
cancel terminate end quit
contract agreement
rule policy regulation
limit cap restrict maximum most up
free gratis nothing
include cover contain comprise
exclude omit drop
lack miss missing without
need require necessary must
late overdue
early earlier
daily day every
yearly year annual annually
annual year yearly
morning am
evening night
noon midday
choose select pick
accept agree approve fine ok
reject refuse decline turn
win beat won defeat
lose lost defeat
score goal scored
die death dead killed
kill die death
vote voted election ballot
fund pay finance funded
show demonstrate reveal prove
cause reason because
problem issue fault trouble
error mistake fault
check inspect examine test verify
test exam examine
throw discard dump thrown
use employ apply used
build construct erect
number amount count
person people
several various
location place site situated lie
address street
hand submit deliver
submit hand file
ascent climb climbing
advertise recruit recruitment
storm hurricane
newspaper paper
picture photo photograph
film movie
phone telephone call ring rang
call phone ring telephone
email mail message
room bedroom
food meal dish
drink beverage
automatic automatically
manual manually hand
alone herself himself oneself
own herself himself
overweight heavy
poorly badly bad
additional extra further
additional more
borrow lend loan
switch change turn move
move relocate transfer
relocate move
connect reconnect electricity power
power electricity
expire run
guarantee warranty
learn study
look search
handle manage care
guest visitor
warn caution alert
"""
_GROUPS_JAPANESE = """
開始 始 開
終了 終 完了 完成 済
購入 買
販売 売
到着 届 着 到
出発 出 発
送付 送 発送 出荷
連絡 知 伝 通知 報告
回答 答 返答 返事
希望 望 願
許可 認 可
禁止 禁 不可
返金 返 払戻 返却
返却 返
支払 払 負担
費用 料金 代 値段 価格 額
減少 減 下
増加 増 上
修理 直 修復 修繕
交換 替 取替 差替 取
故障 壊 不具合
停止 止 中断
再開 復旧 戻
不足 足
移転 移 移動 引越
移動 移 特急
変更 変 改
中止 取
延期 延
決定 決
検討 考
提出 出
参加 出席 加
反対 否
賛成 承認
承認 認
必要 要 入用
不要 要
可能 出来
予約 押
滞在 泊 宿泊
飛行機 飛 行機 空
運航 便 航
所要 時間 掛
利用 使 使用
使用 使 使用率
保管 置 預
預 持 渡 保管
担当 係 受持
手作業 手動
自動 自動的
停電 電気
退院 帰
入院 入
注意 気
転倒 倒 転
負傷 怪我 傷
死亡 死 亡
家族 身内
客 客様 来客
職員 社員 従業員
会社 企業 社
医師 医者 先生
午前 朝
午後 昼
夕方 夕
夜間 夜 晩
毎日 日
無料 料
禁煙 煙
喫煙 煙
募集 募
上限 限
追加 加 別
別 追加
空 空き
削除 消 除
作成 作
起票 作
稼働 動 運転
失格 除外
割合 割
部屋 室 号室
家賃 賃料
席 座
場所 所
開催 開
実施 行
休暇 休
休業 休
訴 訴え
訪問 伺
引取 引
掃除 清掃
詰 詰まり
"""
_LIGHT = """
take takes taken took place come comes came coming go goes going went gone get gets got give gives
gave given make makes made happen happens occur be become became remain remains stay keep kept hold
have has had do does did done put set let run runs ran use used using need needs needed require
required want wants wanted would like may can must should shall will able possible allow allowed
there here also too again already still yet just only even both each every all any some own same
other another new old more less most least much many few several lot
time date day part number amount thing case way kind type piece item person people someone anybody
cost costs costing price paid pay pays provide provides provided provides offer include included
includes including contain contains consist consists cover covers covered available serve served
find found show shows shown tell told say says said state stated mention mentioned ask asks asked
according call called name named know known think believe expect expected plan planned mean means
left right back up down out off over away about around roughly approximately last lasts lasted
during within between since until before after because due reason cause caused
problem trouble issue fact status situation information detail details total overall
begin begins began start starts started end ends ended finish finished
currently now today present recent recently next following well long short early late
exactly fully completely itself himself herself themselves
"""
_LIGHT_JAPANESE = """
行 場合 予定 必要 時 時間 間 方 物 事 者 人 中 的 等 点 件 分 今 今回 現在 状態 状況 内容 結果
理由 原因
可能 出 入 取 付 掛 使 見 言 話 思 考 来 受 持 置 合 対象 関 際 後 前 以内 以上 全体 一部 部分 数 量
期間 期限 日 日付 料金 値段 金額 費用 代金 名 名前 場所 所 判断 確認 実施 開始 終了 会社 当 様 方法
"""


def _stems(text: str) -> list[str]:
    return [stem(word) if word.isascii() else word for word in text.split()]


def _synonym_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = defaultdict(set)
    for line in (*_GROUPS.splitlines(), *_GROUPS_JAPANESE.splitlines()):
        group = _stems(line)
        for term in group:
            table[term].update(other for other in group if other != term)
    return {term: frozenset(others) for term, others in table.items()}


_SYNONYMS = _synonym_table()
_LIGHT_TERMS = frozenset((*_stems(_LIGHT), *_stems(_LIGHT_JAPANESE)))
_NONE: frozenset[str] = frozenset()


def synonyms(term: str) -> frozenset[str]:
    """Return the terms that can stand for a term."""
    return _SYNONYMS.get(term, _NONE)


def is_light(term: str) -> bool:
    """Return True if a term adds little to what a claim says."""
    return term in _LIGHT_TERMS


@lru_cache(maxsize=2_048)
def content_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a text without light words, in order."""
    return tuple(term for term in term_list(text) if not is_light(term))
