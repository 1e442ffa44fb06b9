-- Which forms of a word are found by another one: ten pairs in each of 24 languages, as somebody
-- wrote and somebody else types. docs/guide/languages.md has the result.
CREATE TABLE forms (language text, config text, written text, typed text);
INSERT INTO forms
SELECT split_part(of_language, ' ', 1), split_part(of_language, ' ', 2),
       split_part(pair, '→', 1), split_part(pair, '→', 2)
FROM (VALUES
    ('en english',
        'mice→mouse running→run policies→policy bought→buy indexes→index faster→fast '
        'databases→database e-mails→email rate-limited→limit dishwasher→washer'),
    ('de german',
        'Häuser→Haus Verträge→Vertrag läuft→laufen gegangen→gehen Rechnungen→Rechnung '
        'schneller→schnell Mitarbeiterinnen→Mitarbeiter E-Mail-Adresse→Adresse '
        'Wasserpumpe→Pumpe Kündigungsfrist→Kündigung'),
    ('fr french',
        'chevaux→cheval contrats→contrat allé→aller factures→facture rapidement→rapide '
        'payées→payer utilisateurs→utilisatrice l''eau→eau porte-monnaie→monnaie œuvres→oeuvre'),
    ('es spanish',
        'casas→casa contratos→contrato pagaron→pagar rápidamente→rápido facturas→factura '
        'dijo→decir usuarias→usuario acciones→acción teórico-práctico→práctico camión→camion'),
    ('it italian',
        'case→casa contratti→contratto pagati→pagare andato→andare fatture→fattura '
        'velocemente→veloce uomini→uomo utenti→utente l''acqua→acqua dell''azienda→azienda'),
    ('pt portuguese',
        'casas→casa contratos→contrato pagaram→pagar faturas→fatura ações→ação '
        'rapidamente→rápido usuárias→usuário disse→dizer aviões→avião guarda-chuva→chuva'),
    ('nl dutch',
        'huizen→huis contracten→contract betaald→betalen gelopen→lopen rekeningen→rekening '
        'sneller→snel gebruikers→gebruiker e-mailadres→adres waterpomp→pomp '
        'opzegtermijn→termijn'),
    ('sv swedish',
        'husen→hus avtalen→avtal betalade→betala gick→gå räkningar→räkning snabbare→snabb '
        'användarna→användare böcker→bok vattenpump→pump uppsägningstid→tid'),
    ('da danish',
        'husene→hus aftaler→aftale betalte→betale gik→gå regninger→regning hurtigere→hurtig '
        'brugerne→bruger bøger→bog vandpumpe→pumpe opsigelsesfrist→frist'),
    ('no norwegian',
        'husene→hus avtaler→avtale betalte→betale gikk→gå regninger→regning raskere→rask '
        'brukerne→bruker bøker→bok vannpumpe→pumpe oppsigelsesfrist→frist'),
    ('fi finnish',
        'talossa→talo sopimukset→sopimus maksoi→maksaa menivät→mennä laskujen→lasku '
        'nopeammin→nopea käyttäjät→käyttäjä kirjoissa→kirja vesipumppu→pumppu '
        'irtisanomisaika→aika'),
    ('hu hungarian',
        'házak→ház szerződések→szerződés fizettek→fizet ment→megy számlák→számla '
        'gyorsabban→gyors felhasználók→felhasználó könyvekben→könyv felmondási→felmondás '
        'vízszivattyú→szivattyú'),
    ('ro romanian',
        'case→casă contracte→contract plătit→plăti facturile→factură utilizatori→utilizator '
        'mers→merge cărțile→carte oamenilor→om apelor→apă bine-cunoscut→cunoscut'),
    ('ru russian',
        'домов→дом договоры→договор заплатил→платить шёл→идти счета→счёт быстрее→быстро '
        'пользователи→пользователь книгами→книга людей→человек водонасос→насос'),
    ('tr turkish',
        'evlerde→ev sözleşmeler→sözleşme ödedi→ödemek gitti→gitmek faturaları→fatura '
        'hızlıca→hızlı kullanıcılar→kullanıcı kitaplardan→kitap çocukların→çocuk '
        'pompası→pompa'),
    ('el greek',
        'σπίτια→σπίτι συμβόλαια→συμβόλαιο πλήρωσε→πληρώνω λογαριασμοί→λογαριασμός '
        'γρηγορότερα→γρήγορα χρήστες→χρήστης βιβλίων→βιβλίο πήγε→πηγαίνω νερού→νερό '
        'άνθρωποι→άνθρωπος'),
    ('ar arabic',
        'البيوت→بيت العقود→عقد دفعوا→دفع فواتير→فاتورة المستخدمين→مستخدم كتب→كتاب الماء→ماء '
        'ذهبت→ذهب والمضخة→مضخة سريعا→سريع'),
    ('hi hindi',
        'घरों→घर अनुबंधों→अनुबंध लड़कियाँ→लड़की किताबें→किताब उपयोगकर्ताओं→उपयोगकर्ता '
        'बिलों→बिल लोगों→लोग चलते→चलना गया→जाना पंपों→पंप'),
    ('id indonesian',
        'rumah-rumah→rumah membayar→bayar pembayaran→bayar kontraknya→kontrak pengguna→guna '
        'tagihan→tagih dipercepat→cepat buku-buku→buku perbaikan→baik berjalan→jalan'),
    ('pl simple',
        'domy→dom umowy→umowa zapłacił→płacić faktury→faktura szybciej→szybko '
        'użytkownicy→użytkownik książkach→książka poszedł→iść ludzie→człowiek '
        'polsko-niemiecki→niemiecki'),
    ('zh simple',
        '数据库性能优化→数据库 合同终止日期→合同 水泵漏水了→漏水 发票已支付→支付 用户们→用户 '
        '人工智能→智能 退款政策→政策 我走了→走 電腦→电脑 ＡＢＣ公司→abc'),
    ('ja simple',
        'データベースの性能→データベース 契約を解除した→契約 水漏れがあります→水漏れ '
        'ユーザーたち→ユーザー 人工知能→知能 返金ポリシー→ポリシー ｻｰﾊﾞｰ→サーバー '
        '支払った→支払う 食べました→食べる 走って→走る'),
    ('ko simple',
        '데이터베이스의→데이터베이스 계약을→계약 지불했습니다→지불 사용자들이→사용자 '
        '인공지능→지능 환불정책→정책 서버가→서버 책에서→책 물을→물 달렸다→달리다'),
    ('th simple',
        'ฐานข้อมูล→ข้อมูล สัญญาเช่าบ้าน→สัญญา น้ำรั่ว→รั่ว ชำระเงินแล้ว→ชำระเงิน '
        'ผู้ใช้งาน→ผู้ใช้ ใบแจ้งหนี้→หนี้ เครื่องสูบน้ำ→น้ำ หนังสือเรียน→หนังสือ '
        'ปัญญาประดิษฐ์→ปัญญา นโยบายการคืนเงิน→คืนเงิน')) AS v (of_language, pairs),
    unnest(string_to_array(pairs, ' ')) AS pair;

-- one index for each configuration, with the analysis that is the default
CREATE TABLE found (language text, written text, typed text, is_found boolean);
DO $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT DISTINCT config FROM forms LOOP
        CREATE TEMP TABLE texts AS SELECT * FROM forms WHERE config = one;
        EXECUTE format('CREATE INDEX texts_written ON texts USING rag_bm25 (written)
                        WITH (text_config = %L)', one);
        INSERT INTO found SELECT language, written, typed,
                                 written @@@ rag_bm25_query(typed, 'texts_written') FROM texts;
        DROP TABLE texts;
    END LOOP;
END $$;
SELECT language, count(*) FILTER (WHERE is_found) AS found,
       string_agg(written || ' by ' || typed, ', ' ORDER BY written COLLATE "C")
           FILTER (WHERE NOT is_found) AS not_found
FROM found GROUP BY language ORDER BY language;
SELECT count(*) AS pairs, count(*) FILTER (WHERE is_found) AS found FROM found;
DROP TABLE forms, found;
