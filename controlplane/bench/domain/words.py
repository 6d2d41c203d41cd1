"""The words prompts are made of: short, common, lower-case English, each one once.

No tokenizer is needed anywhere: sizes are set in words, and the server's `usage.prompt_tokens` says what they cost.
The list is part of a workload's content hash, so a change here makes a new workload.
"""

from __future__ import annotations

# fmt: off
WORDS: tuple[str, ...] = tuple(  # one block of text, not 777 quoted lines
    """
    able about above across act add after again age air all allow alone along also always among and animal answer any
    apart apple area arm army art ask away back bad bag ball band bank bar bare base bath bear beat become bed before
    begin behind bell below best better big bird bit black block blood blow blue board boat body bone book born both
    bottom bowl box boy bread break bridge bright bring broad brother brown build burn busy but buy call camp can cap
    captain car card care carry case cat catch cause cell center chair chance change check chief child choose circle
    city claim class clean clear climb clock close cloth cloud coat cold collect color column come common cook cool
    copy corn corner cost count country course cover cow create crop cross crowd cry current cut dance dark day dead
    deal dear decide deep depend desert desk did differ dinner direct doctor dog dollar done door double down draw
    dream dress drink drive drop dry duck during each ear early earth ease east eat edge effect egg eight either
    else end engine enough enter equal even evening event ever every exact example except excite eye face fact fair
    fall family famous far farm fast father favor fear feed feel feet few field fig fight figure fill final find
    fine finger finish fire first fish fit five flat floor flow flower fly follow food foot force forest form forward
    found four free fresh friend from front fruit full fun game garden gas gather gave general gentle get girl give
    glad glass goat gold good grand grass gray great green ground group grow guess guide hair half hand happen happy
    hard has hat have head hear heart heat heavy held help here high hill history hit hold hole home hope horse hot
    hour house how human hundred hunt hurry ice idea inch insect iron island job join jump just keep key kill kind
    king knew lady lake land language large last late laugh law lay lead learn least leave left leg length less
    letter level lie life lift light like line list listen little live long look lost lot loud love low machine made
    main make man many map mark market mass master match matter may mean meat meet melody men metal middle might mile
    milk mind minute miss mix modern moment money month moon more morning most mother motion mount mouth move much
    music must name nation nature near neck need never new next night nine noise noon north nose note nothing notice
    noun now number object ocean off offer office often oil old once one only open order other our out over own page
    paint pair paper parent part party pass past path pay people period person phrase pick picture piece place plain
    plan plane planet plant play please plural point poor port pose position post pound power press pretty print
    prove provide pull push put question quick quiet quite race radio rail rain raise ran range rather reach read
    ready reason record red region remember repeat reply rest result rich ride right ring rise river road rock roll
    room root rope rose round row rule run safe sail salt same sand save saw say scale school science sea season seat
    second section see seed select self sell send sense sent set seven shape share sharp she sheet shell ship shirt
    shoe shop shore short shoulder shout show side sight sign silver simple since sing sister sit six size skill skin
    sky sleep slow small smell smile snow soft soil soldier solve some son song soon sound south space speak special
    speech speed spell spend spoke spot spread spring square stand star start state station stay steam steel step
    stick still stone stop store story strange stream street string strong student study such sudden sugar suit
    summer sun supply sure surface swim system table tail take talk tall teach team tell ten term test than thank
    the their them then there these they thick thin thing think third this those thought thousand three through
    throw thus tie time tiny tire together tone took tool top total touch toward town track trade train travel tree
    triangle trip trouble truck true try tube turn twenty two type under unit until use usual valley value vary verb
    very view village visit voice vowel wait walk wall want war warm wash watch water wave way wear weather week
    weight well west what wheel when where which while white whole why wide wife wild will win wind window wing
    winter wire wish with woman wonder wood word work world write wrong yard year yellow yes yet you young
    """.split()  # noqa: SIM905
)
