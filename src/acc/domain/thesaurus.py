"""Words of general English and Japanese with a similar and with an opposite meaning.

The lists have no words of one domain only. `paraphrases` reads them.
"""

#: Groups of words that can stand for each other, separated by slashes.
GROUPS = """
begin start commence launch open onset / end finish complete conclude stop over close
buy purchase order acquire / sell sold / get receive obtain got arrive
send ship dispatch mail deliver forward / deliver delivery arrive supply
reply respond answer responded / ask request demand want wish desire like / want prefer wish
tell inform notify report told let / inform told notify aware know
say state explain mention according said think believe
permit allow authorise authorize let may possible can / forbid forbidden prohibit ban disallow
return refund repay reimburse back brought / return bring brought back
pay cost price charge fee paid / cost price amount charge expense
fall fell drop decrease decline reduce dropped down sank
rise rose increase grow grew climb up raise / shrink shrank reduce smaller shrunk
repair fix mend / replace exchange swap change
broken defective faulty damaged dead fail failed broke down / damage damaged break broke
breakdown fail failed broke / big large huge / small little tiny / quick fast rapid
job position post role vacancy / work job / staff employee personnel worker workforce team
boss manager superior supervisor report chief / company firm business enterprise corporation
customer client buyer / child kid children / doctor physician / surgery operation operated
sick ill / allergy allergic / diabetes diabetic / ache pain / medicine drug medication
house home / flat apartment / lift elevator / car vehicle automobile / trip journey tour travel
leave depart go departure left / arrive reach come arrival / stay remain spend
meet meeting session / plan intend schedule planned going / postpone delay put
cancel terminate end quit / contract agreement / rule policy regulation
limit cap restrict maximum most up / free gratis nothing / include cover contain comprise
exclude omit drop / lack miss missing without / need require necessary must / late overdue
early earlier / daily day every / yearly year annual annually / annual year yearly / morning am
evening night / noon midday / choose select pick / accept agree approve fine ok
reject refuse decline turn / win beat won defeat / lose lost defeat / score goal scored
die death dead killed / kill die death / vote voted election ballot / fund pay finance funded
show demonstrate reveal prove / cause reason because / problem issue fault trouble
error mistake fault / check inspect examine test verify / test exam examine
throw discard dump thrown / use employ apply used / build construct erect / number amount count
person people / several various / location place site situated lie / address street
hand submit deliver / submit hand file / ascent climb climbing / advertise recruit recruitment
storm hurricane / newspaper paper / picture photo photograph / film movie
phone telephone call ring rang / call phone ring telephone / email mail message / room bedroom
food meal dish / drink beverage / automatic automatically / manual manually hand
alone herself himself oneself / own herself himself / overweight heavy / poorly badly bad
additional extra further / additional more / borrow lend loan / switch change turn move
move relocate transfer / relocate move / connect reconnect electricity power / power electricity
expire run / guarantee warranty / learn study / look search / handle manage care / guest visitor
warn caution alert
"""
GROUPS_JAPANESE = """
開始 始 開 / 終了 終 完了 完成 済 / 購入 買 / 販売 売 / 到着 届 着 到 / 出発 出 発
送付 送 発送 出荷 / 連絡 知 伝 通知 報告 / 回答 答 返答 返事 / 希望 望 願 / 許可 認 可
禁止 禁 不可 / 返金 返 払戻 返却 / 返却 返 / 支払 払 負担 / 費用 料金 代 値段 価格 額
減少 減 下 / 増加 増 上 / 修理 直 修復 修繕 / 交換 替 取替 差替 取 / 故障 壊 不具合
停止 止 中断 / 再開 復旧 戻 / 不足 足 / 移転 移 移動 引越 / 移動 移 特急 / 変更 変 改 / 中止 取
延期 延 / 決定 決 / 検討 考 / 提出 出 / 参加 出席 加 / 反対 否 / 賛成 承認 / 承認 認
必要 要 入用 / 不要 要 / 可能 出来 / 予約 押 / 滞在 泊 宿泊 / 飛行機 飛 行機 空 / 運航 便 航
所要 時間 掛 / 利用 使 使用 / 使用 使 使用率 / 保管 置 預 / 預 持 渡 保管 / 担当 係 受持
手作業 手動 / 自動 自動的 / 停電 電気 / 退院 帰 / 入院 入 / 注意 気 / 転倒 倒 転 / 負傷 怪我 傷
死亡 死 亡 / 家族 身内 / 客 客様 来客 / 職員 社員 従業員 / 会社 企業 社 / 医師 医者 先生
午前 朝 / 午後 昼 / 夕方 夕 / 夜間 夜 晩 / 毎日 日 / 無料 料 / 禁煙 煙 / 喫煙 煙 / 募集 募
上限 限 / 追加 加 別 / 別 追加 / 空 空き / 削除 消 除 / 作成 作 / 起票 作 / 稼働 動 運転
失格 除外 / 割合 割 / 部屋 室 号室 / 家賃 賃料 / 席 座 / 場所 所 / 開催 開 / 実施 行 / 休暇 休
休業 休 / 訴 訴え / 訪問 伺 / 引取 引 / 掃除 清掃 / 詰 詰まり
"""
#: A word and words near it. Those are not near each other.
NEAR = """
abandon give leave drop / able can capable unable / absent away missing off out
accident crash collision / accompany come join together / accurate correct right exact
achieve reach meet attain / add additional extra plus further another more
advice recommend suggest advise / afford pay money / afraid fear scared worry
agree accept approve consent ok / aim goal target objective / aisle corridor hallway passage
alter change modify amend / amount sum total quantity / angry annoyed upset
annoyed upset complain / announce publish inform declare reveal
apologise apologize sorry apology / appear seem look / applicant candidate apply
application apply form request / appoint name hire choose / appointment meeting slot visit
argue dispute disagree / arrive reach come get land / article report piece story
assist help support aid / assume take suppose think / attach enclose include append
attempt try / attend come visit present join participate / average mean
avoid prevent stop keep / award prize win give / baby infant newborn / bag luggage suitcase
bake cook oven / base headquarter / beautiful nice lovely pretty / begin start launch open
belong own owner / bid tender offer quote / big large great huge tall / bike bicycle cycle
bill invoice charge / bin rubbish waste garbage trash / block obstruct stand front
board committee panel / book reserve reservation / bottom base lower
box crate container carton case / break pause rest / brief short / bring take carry deliver
broad wide / build construct erect make / building house block / burn fire bonfire
buy purchase order get acquire / calm quiet / cancel call drop abandon
car vehicle drive driver / care look careful treat / carry transport bring / catch get
cause because lead result reason due owing make / celebrate party / centre center middle
change alter switch move swap / chair head lead preside / cheap inexpensive low
check inspect control verify / choose pick select opt decide / class lesson course
clean wash tidy / clear empty / clever smart / climb rise go / close shut end / coat jacket
collect gather pick fetch / college university / colleague coworker worker / come arrive
comfortable cosy / complain complaint criticise unhappy / complete finish done whole full
computer laptop pc machine / concern worry about / condition state shape
confirm verify approve / contact call reach write ring / contain hold include
continue go still keep remain carry / cook chef kitchen / cool cold / copy duplicate
correct right fix / cost price charge pay / council councillor parish / country nation state
couple two pair / court judge / cover stand replace substitute / create make produce
crop harvest / crowd people / cure heal treat / cut reduce trim lower / damage harm break hurt
danger risk / dear expensive / decide decision resolve choose determine / decline refuse
defect fault / delay late postpone / deliver bring supply send / deny refuse reject
depend condition if subject / deposit down / describe explain / design plan draw / destroy ruin
detect find notice / develop grow / die dead death kill / difference differ
difficult hard tough / dinner supper meal / dirty soiled / disappear gone lost
discount reduction reduce cheap off / discover find found / discuss talk speak
disease illness sick ill / dispatch send ship / distance far / distribute hand give
divide split share / document paper file / donate gift give donation / double twice two
drive car / drop fall / due owe expect / duty task job / each every per / early before soon
earn make get pay / easy simple / eat meal food / edge side / educate teach school
effect result / elderly old senior / electricity power / elect vote
employ hire staff worker work / empty vacant unoccupied free / enable allow let
enclose fence include / encourage support / end finish stop over last / enjoy like love
enough sufficient / enter come go / entire whole all full / equal same / equipment gear tool
error mistake wrong / escape flee / estimate guess reckon think / evening tonight night
evidence proof / exact precise / examine check inspect look / excellent great / except apart but
excuse sorry / exist be / exit leave / expect reckon await / expensive dear cost
expert specialist / explain say / extend longer prolong stretch / fabric cloth
fail unable not break / fall drop decrease go decline / family relative household / famous known
far distant / farm farmer / fast quick / father dad / favour support for / fee charge cost
feed eat food / female woman / fetch collect pick / few little / fill full / final last
finance fund pay money / find discover notice found / fine good ok / fire burn / firm company
first initial / fit suit / fix repair attach mend / flat apartment / flood water / floor storey
flight fly plane / follow after / foot walk walker pedestrian / forbid not allow
foreign abroad / form sheet paper / former ex previous / free vacant available empty
frequent often / fresh new / friend mate pal / frighten scare / front before
full complete occupied / fund money pay finance / garden yard / gather collect meet
get receive obtain / gift present / give hand provide offer / glad happy pleased
go leave travel walk / good fine well sound nice / govern rule / grade mark score
grant give fund / group team party band / grow increase / guard protect / guess estimate
guest visitor diner customer / guide lead / half 0.5 / halt stop / handle deal manage touch use
happen occur place / happy pleased glad satisfied content / hard difficult / harm damage
hate dislike / head lead chief / hear told listen / heat warm hot / help assist support
high tall / hire employ rent recruit / hit strike / hold keep / holiday vacation leave off trip
home house / hope wish / horse rider / hot warm / huge big / hurt injure harm pain
husband spouse / idea thought plan / identify recognise / ill sick unwell
immediate once instant right / important key / impossible cannot / improve better
include contain comprise with / income salary pay / increase rise raise grow more up
inform tell / initial first / injure hurt wound / inquire ask / inspect check examine
install fit put / instead rather replace / instruct tell order / insure insurance
intend plan want / interrupt stop / invite ask / involve include / issue problem / item thing
jail prison / join become / journey trip travel / judge consider think / keep hold remain stay
kill dead / kind type / know aware / label tag mark / lack without no missing
land ground arrive / language speak / last final / late delay / launch start / law rule legal
lawyer solicitor attorney / lead head run / leak drip escape / learn study
leave depart go quit / legal law / lend loan / length long / lesson class / let rent allow
licence license permit allow / lid cover / lift raise / light lamp / like enjoy love
limit max cap / liquid fluid / listen hear / live reside home / locate place / log record
lonely alone / look see watch / lose miss / loud noise noisy / love like / lunch meal
machine device / main chief / maintain keep / make produce create build / male man
manage run handle head / manufacturer maker producer promise / mark sign
marry wedding husband wife / match game / maximum most / meal food dinner / medical medicine
meet see / mention say / message note / method way / middle centre / minimum least / minor small
miss lack / mistake error / money cash fund / month monthly / mother mum mom
move relocate shift go transfer / movie film / murder kill / name call / near close next by
necessary need required / neighbour neighbor next / new fresh / news report / next following
noise loud / normal usual / notice see / notify tell / object thing / observe watch see
obtain get / obvious clear / occupied full use taken / occur happen / offer propose give
officer police / operate run work / opinion view think / oppose against / option choice
ordinary normal / organise arrange plan hold / origin source from / outside outdoor
owner own landlord / pain ache hurt / paint painting / pair two couple / parcel package
parent mother father / part piece section / participate part / party group / pause break
pay cost price / penalty fine / people person man public / perform do / period time
permit allow / permission allow permit / person people man / phone call ring / photo picture
pick choose / piece part / place put / plan intend / plane flight / pleased happy
police officer / poor bad / population people / position job / possible can / post job mail
postpone later delay / practice train / precise exact / predict forecast / prefer rather
prepare ready / present gift / prevent stop / previous before former / price cost / prison jail
prize award / probable likely / problem trouble / proceed continue / produce make
profit gain earn / promise pledge guarantee / proof evidence / propose suggest offer
protect guard / protest complain object / prove show / provide give supply
publish release announce print newsletter / pupil student child / purchase buy / purpose aim
put place / quarrel argue / question ask / queue line / quick fast / quiet silent / quit leave
rail train / rain wet / raise lift up / react respond / reason because / receive get
recommend suggest advise / record log / recruit hire / reduce cut / refuse decline / region area
regret sorry / reject refuse / relative family / relax rest / remain stay still
remove take off / rent lease let / repair fix / repeat again / replace change / reply answer
request ask / require need / rescue save / research study / reserve book / resident tenant
resign quit / resolve decide / responsible charge / restrict limit / revenue income / ring call
road street lane / rob steal / rock stone / room space / rubbish waste
rust corrode corrosion corroded / sail boat / salary pay / sale sell / same unchanged still
satisfy happy / say tell / schedule plan timetable / score mark / search look / second 2
section part / seldom rare / separate own / share split alternate / shop store / shut close
single one / sound good / space room / spare replacement / speak talk tell
suspect think believe
"""
NEAR_JAPANESE = """
止 停止 停 中断 休止 ストップ / 始 開始 再開 スタート 着手 / 終 終了 完了 済 了 完成 終わ
壊 故障 破損 破 損傷 不具合 不良 / 直 修理 修復 復旧 修繕 / 換 替 交換 取替 変 更新 新
接触 衝突 当 ぶつか 追突 / 怪我 負傷 傷 けが 負傷者 / 残 余 残り / 無 なし ゼロ 空 皆無
在庫 残 残り ストック / 届 着 到着 納 納品 納期 来 / 送 発送 送付 出荷 郵送 メール
注文 発注 頼 依頼 / 頼 依頼 お願い 願 / 許可 許 認 承認 承諾 可 了解
禁止 禁 不可 厳禁 だめ ダメ / 速度 速 スピード / 下 低 減 落 降 / 上 高 増 増加 昇
運転 動 稼働 操作 走 運航 / 所持 持 保有 / 負担 払 支払 出 / 支払 払 振込 振 納付 入金 支払い
料金 費用 代金 代 値段 価格 金額 額 費 お金 金 / 無料 タダ ただ 無償 不要 / 有料 お金 料金
半額 半分 半 / 安 値下 割引 / 高 値上 / 決 決定 定 確定 判断 / 未定 決 決定 / 不明 分 知
担当 受持 係 務 行 やる / 引継 引き継 代 交代 替 後任 / 代 替 交代 代わ / 集合 集 集ま 揃
開始 から 始 / 場所 会場 先 所 / 変更 変 移 替 改 / 移 移動 移転 引越 変 / 狭 手狭 小 / 広 大
部屋 室 間 / 車 自動車 駐車 マイカー / 駐車場 駐車 停 車 / 電車 列車 鉄道 / 飲食 食 飲 食事
飲 飲食 飲料 茶 / 食 飲食 食事 ごはん 昼食 夕食 / 昼食 昼 ランチ お昼 / 朝食 朝 / 夕食 夕 晩
印刷 刷 プリント / 作 作成 製作 制作 製造 生産 / デザイン 絵 図案 / 店 店舗 業者 会社
前回 前 去年 先 / 今回 今 今度 / 去年 昨年 前年 昨年度 / 今年 本年 今年度 / 来年 翌年
先月 前月 / 今月 本月 月内 / 来週 翌週 次週 / 明日 翌日 次 / 昨日 前日
最初 初 初回 一 1 初日 冒頭 / 最後 終 末 / 毎日 日 連日 / 毎週 週 / 平日 月曜 金曜
週末 土日 土曜 日曜 / 休日 祝日 休 / 休 休館 休業 休暇 休日 閉 不在 / 閉 休館 閉館 閉鎖 閉店 終
開 開館 開店 営業 再開 開放 オープン / 閉館 閉 終 / 開館 開 時間 / 延長 延 長 延ば / 短縮 短 縮
長 延長 延 / 増 増加 多 拡大 拡充 / 減 減少 少 縮小 / 多 増 大勢 / 少 減 僅 / 従来 今 変 以前
同 変 同様 従来 等 / 返 返却 返送 戻 返還 / 返送 返 送 / 返却 返 / 借 貸 貸出 借入 レンタル
貸 貸出 借 貸与 / 予約 申込 取 確保 押 / 申込 申 申請 応募 予約 / 応募 申込 募集 / 募集 応募 求
参加 出席 出 加 入 定員 / 定員 人数 参加 名 / 欠席 休 不参加 / 同席 一緒 付添 同伴 入
一緒 同 共 合流 / 合流 加 来 着 参加 / 先着 順 早 / 抽選 くじ / 住 居住 在住 住民 住ま
働 勤務 通勤 仕事 在勤 / 通勤 働 勤 勤務 / 通学 学 学生 通 在学 / 学生 生徒 通学 学 在学
証明 示 証 / 必要 要 入用 持 用意 いる / 不要 必要 要 / 用意 準備 手配 持参 支度 / 準備 用意
持参 持 持って / 断 拒否 拒 お断り 禁 遠慮 / 遠慮 控 断 / 受 受付 受入 受理 受取 引受 受け
受け入れ 受 受入 受理 / 渡 手渡 引渡 預 / 預 保管 渡 / 保管 置 預 管理 保存 しま
置 仮置 保管 設置 / 仮置 置 / 管理 担当 保管 / 所有 持 保有 / 理由 原因 ため / 原因 理由 せい
結果 成果 / 合格 通 可 基準 達成 / 不合格 落 基準 失格 / 基準 規格 標準 規定 / 達成 届 到達 成功
目標 狙 目的 / 試作 試 / 試験 テスト 検査 試 / 検査 点検 調 確認 監査 テスト / 点検 検査 調 確認
調 調査 検査 点検 / 調査 調 研究 / 指摘 問題 注意 指 / 問題 課題 支障 異常 トラブル
異常 問題 不具合 / 対策 対応 処置 済 / 対応 対策 処理 / 注意 気 警告 / 苦情 文句 クレーム 不満
謝 謝罪 詫 お詫び / 騒 うるさ 騒音 音 / 夜中 夜遅 深夜 夜 / 深夜 夜中 夜 / 早朝 朝 / 午前 朝
午後 昼 夕 / 正午 12 昼 / 宿泊 泊 宿 泊ま / 泊 宿泊 泊ま / 宿 旅館 ホテル 民宿 / 旅行 旅 出張
出発 発 出 立 / 到着 着 / 帰 戻 帰宅 帰国 / 迎 出迎 / 見送 送 / 乗 乗車 搭乗 席
席 座席 空席 人分 / 満席 満 いっぱい / 空席 席 空 入 / 入 加 可能 / 教 指導 教え 講師 先生
講師 先生 教師 指導 / 先生 講師 教師 教諭 医師 / 生徒 学生 児童 子
子供 子 子ども 児童 幼児 こども / 子ども 子 児童 子供 / 保護者 親 父母 家族 / 親 保護者 父母
大人 成人 / 高齢 老 お年寄 / 家族 親族 身内 / 妹 姉妹 / 客 お客 来客 利用者 顧客 得意先
得意先 取引先 客 顧客 / 取引先 得意先 客 / 会社 社 企業 弊社 当社
従業員 社員 職員 スタッフ 作業者 / 作業者 作業員 従業員 / 職員 社員 係員 スタッフ
上司 課長 部長 長 / 医者 医師 先生 / 病気 病 疾患 体調 / 薬 服薬 錠 投薬 / 飲む 服用 / 服用 飲
痛 痛み / 熱 発熱 体温 / 手術 オペ / 入院 病院 / 退院 帰 / 眠 寝 睡眠 / 起 起床
書 記入 記載 書き込み 記 振 / 記載 書 記 載 / 読 閲覧 / 話 言 述 語 発言 / 言 述 話 発言 伝
伝 知らせ 連絡 言 告 通知 報告 / 連絡 知らせ 伝 通知 電話 / 電話 連絡 架 / 知らせ 通知 連絡 案内
聞 伺 尋 質問 問 / 質問 聞 尋 問 / 答 回答 返事 返答 / 説明 述 話 案内 / 見 観 眺 確認
探 捜 求 / 選 選択 選出 決 / 買 購入 購 仕入 / 売 販売 売却 / 売切 完売 品切 / 使 利用 使用 用
利用 使 使用 / 使用 使 利用 / 歌 歌唱 ソロ / 曲 楽曲 歌 / 演奏 弾 コンサート / 踊 ダンス
勝 勝利 優勝 / 負 敗 敗北 / 増築 建 改築 / 建 建設 建築 / 建物 ビル 棟 / 工事 施工 作業 改修
掃除 清掃 片付 / 洗 洗濯 洗浄 / 捨 廃棄 処分 / 廃棄 捨 処分 / 片付 整理 掃除 / 運 運搬 搬送 輸送
搬送 運 輸送 / 遅 遅延 遅刻 遅れ / 早 繰上 前倒 速 / 延期 延 先送 ずれ
中止 取りやめ やめ 取消 キャンセル / 取消 キャンセル 中止 / 辞 退職 退任 辞任 / 退職 辞 退任
就職 入社 採用 / 採用 雇 入社 / 雇 採用 / 任命 就任 選 / 赴任 転勤 行 移 / 転勤 赴任 異動
海外 外国 国外 / 国内 日本 / 市内 市 / 市外 外 / 地震 揺 / 雨 降雨 雨天 / 雪 降雪 / 雨天 雨
晴 晴天 / 寒 冷 / 暑 熱 猛暑 / 温度 気温 熱 / 植 植付 栽培 / 栽培 育 植 / 育 育成 飼育
収穫 採 刈 取 / 枯 しお / 水 水分 潅水 / 肥料 肥 / 牛 乳牛 / 犬 愛犬 / 猫 飼猫 / 魚 鮮魚
野菜 青果 / 米 稲 / 果物 果実 / 味 風味 / 材料 原料 素材 / 道具 器具 用具
機械 装置 機器 マシン / 装置 機械 機器 / 温 暖 加熱 / 冷 冷却 冷蔵 / 電気 電力 / 停電 電気
点灯 点 つ / 消灯 消 / 消 削除 消灯 消去 / 落 落下 下 / 転 転倒 倒 / 盗 盗難 / 失 紛失 なく
紛失 失 なく / 見つけ 発見 見 見つか / 発見 見つけ 見つか 見 / 隠 秘 / 守 保護 遵守 / 破 違反
違反 破 反 / 罰金 罰 / 逮捕 捕 / 犯人 容疑者 / 警察 警官 / 消防 消火 / 火事 火災 出火
火災 火事 出火 / 死亡 亡 死 / 亡 死亡 死 逝去 / 生 誕生 出産 / 結婚 婚 / 離婚 別 / 卒業 卒
入学 進学 / 合計 計 全部 総 / 全部 全 全て 総 / 全員 全 皆 みんな / 一部 部分 / 半数 半分 半
大半 多 大部分 半分 / 約 ほど 程度 およそ / 以上 超 上 / 以下 未満 下 / 未満 以下 下
超 以上 超え / 最大 最高 最多 上限 まで / 上限 最大 まで / 最低 最小 最少 / 平均 均
割 パーセント / 倍 2倍 / 順番 順 番 / 番目 回目 曲目 目 / 回目 度目 番目 回 / 人 名 者 方
名 人 / 冊 本 / 枚 部 / 次 翌 後 / 後 以降 次 のち / 前 以前 / 隣 横 近 そば / 近 付近 隣 周辺
遠 離 / 外 屋外 戸外 / 屋外 外 / 屋内 室内 中 / 廊下 通路 / 通路 廊下 道 / 道 道路 路 / 橋 架橋
海 海岸 / 山 山地 / 川 河川 / 駅 最寄 / 空港 飛行場 / 港 埠頭 / バス 車 乗合 / 荷物 荷 手荷物
手紙 便り 書簡 / 書類 文書 資料 用紙 / 資料 書類 文書 / 本 書籍 図書 書 資料 / 図書 本 書籍
雑誌 本 / 新聞 紙面 / 写真 画像 / 映画 作品 / 絵 絵画 / 会議 打合 ミーティング 会
会 会議 集 催 / 開催 行 開 催 / 行 実施 開催 やる / 実施 行 / 予定 計画 見込 / 計画 予定 案
案 計画 提案 / 提案 案 出 / 賛成 同意 支持 / 反対 否 異議 / 投票 票 選挙 / 選挙 投票 票
当選 選 / 予算 費 資金 / 資金 金 予算 / 補助 助成 支援 / 支援 助 援助 補助 / 助 手伝 支援 援助
手伝 助 手助 / 寄付 寄贈 募金 / 寄贈 贈 寄付 / 贈 プレゼント 贈呈 / プレゼント 贈 土産
土産 みやげ / 記念 祝 / 祝 祝賀 / 楽 面白 / 嬉 喜 満足 / 喜 嬉 歓迎 満足 / 怒 腹 / 悲 残念
心配 不安 懸念 / 安心 大丈夫 / 大丈夫 問題 可 平気 / 可能 可 出来 できる / 難 困難 大変
簡単 容易 楽 / 後回 後 / 優先 先 / 忙 多忙 / 暇 空 / 免許 資格 許可 / 無免許 免許 / 資格 免許
着用 着 付 装着 使 / 衣装 服 着 / 靴 履 / 耳栓 耳 / 帽子 帽 / 出版 発行 刊行 / 発行 出版 出
発表 公表 公開 / 公開 発表 / 募 募集
"""
#: Two groups whose words exclude each other.
OPPOSITES = """
open launch start begin | close shut end finish stop
empty vacant unoccupied free | full occupied taken booked
rise rose increase grow grew climb up higher raise | fall fell decrease drop decline shrink down
more | fewer less / most | least few / many | few / longer long | shorter short brief
larger bigger big large | smaller small little / cheaper cheap cheapest | expensive dear
early earlier before | late later after / first | last / arrive come | leave depart go
accept approve agree | reject refuse decline oppose / allow permit may | forbid ban prohibit
keep stay remain continue | stop remove drop leave change abandon
add include | remove exclude omit / win won | lose lost / pass succeed | fail
work works functional | broken fail defective dead
good fine happy satisfied sound | bad poor complain unhappy wrong problem fault
happy satisfied | complain criticise unhappy / buy bought | sell sold / lend | borrow
give gave send sent | receive get got take / hire | fire dismiss
confirmed certain proven | unconfirmed uncertain unclear unknown / known | unknown
mandatory required compulsory must | optional voluntary / hot warm | cold cool / wet | dry
new fresh | old used / strong | weak / fast quick | slow / easy | hard difficult
safe | dangerous unsafe / clean | dirty / alive | dead / present | absent away
inside indoor | outside outdoor / upper top | lower bottom / maximum | minimum
public | private / right correct | wrong incorrect / same unchanged | different change new
paid | unpaid / free | charge pay cost / enable | disable / push | pull / north | south
east | west / left | right / male | female / parent mother father | child son daughter
teacher | student pupil / landlord | tenant / buyer customer | seller / alone | together
day | night / morning | evening / weekday | weekend / import | export / profit | loss
praise | criticise / love like | hate dislike / remember | forget / save | waste / lock | unlock
appear | disappear / ahead | behind / above over | below under / indoors | outdoors
temporary | permanent / manual | automatic / all every unanimous | none / always | never
"""
OPPOSITES_JAPANESE = """
増 増加 上 上昇 高 引上 拡大 | 減 減少 下 低下 低 引下 縮小 落
始 開始 開 再開 | 終 終了 閉 停止 止 中止 休館 / 開館 開店 開 | 休館 閉館 閉店 閉 休業
合格 成功 勝 | 不合格 失敗 負 敗 / 有料 | 無料 タダ / 可 可能 許可 | 不可 禁止 だめ
必要 要 | 不要 / 賛成 | 反対 / 出席 参加 | 欠席 不参加 / 満席 満 | 空席 空
有 在庫 | 無 なし ゼロ / 早 速 | 遅 / 前 | 後 / 長 延長 | 短 短縮 / 大 広 | 小 狭 / 多 | 少
安 | 高 / 新 | 古 同 / 同 従来 | 変 変更 新 違 / 右 | 左 / 東 | 西 / 南 | 北 / 上 | 下
内 中 | 外 / 午前 朝 | 午後 夜 夕 / 平日 | 休日 土日 週末 / 今月 | 先月 来月 / 今週 | 来週 先週
今年 | 去年 来年 / 市内 | 市外 / 大人 | 子 子ども / 貸 | 返 / 買 | 売 / 行 | 帰 / 入 | 出
入院 | 退院 / 暑 暖 | 寒 冷 / 晴 | 雨 / 強 | 弱 / 軽 | 重 / 既知 | 不明 未定
決定 確定 決 | 未定 未確定 / 完了 済 完成 | 未完 未済 / 紙 | 電子 / 手動 | 自動 / 先着 | 抽選
男 男性 | 女 女性 / 兄 弟 | 姉 妹 / 父 | 母 / 息子 | 娘 / 夫 | 妻 / 社員 | 客
先生 講師 | 生徒 学生 / 最大 最高 上限 | 最低 最小 / 以上 | 以下 / 一部 | 全部 すべて 全員
縦 | 横 / 表 | 裏 / 明 | 暗 / 甘 | 辛 / 静 | 騒
"""
