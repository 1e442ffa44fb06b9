-- Words of an index rag_bm25: compounds and their parts, codes, scripts without blanks, analyses.
SET client_min_messages = notice;

CREATE TABLE said (id int PRIMARY KEY, body text);
INSERT INTO said VALUES
    (1, 'We ship for macOS/Linux and Windows/ARM.'),
    (2, 'An input/output failure stops the client/server link.'),
    (3, 'Fiscal year 2023-2024, error E-1042 of order SO-25532.'),
    (4, 'Call db.session.commit() after user.save() in src/lock.rs.'),
    (5, '<project><build><finalName>billing</finalName></build></project>'),
    (6, 'Die Größe der Bücher im Cafe' || chr(769) || ' Müller.'),
    (7, 'Kaffee' || chr(173) || 'maschine: Rück' || chr(173) || 'gaberecht vierzehn Tage.'),
    (8, 'ERR_AUTH_TIMEOUT in version 2.11.3 of SolarCharge Pro'),
    (9, 'アップデート後、AquaPump X200にE-105が表示され、12分後に水漏れが止まります。'),
    (10, '提交之前必须锁定数据库。'),
    (11, '데이터베이스의 물이 샙니다'),
    (12, 'เครื่องรั่วหลังจากอัปเดต AquaPump X200'),
    (13, 'The settings are in settings.yaml, not in settings.json.'),
    (14, 'We commit to the plan and lock the door.');
CREATE INDEX said_body ON said USING rag_bm25 (body) WITH (text_config = 'english');

-- what each query finds, the best first
PREPARE found(text) AS SELECT string_agg(id::text, ' ' ORDER BY n) AS ids FROM (
    SELECT id, row_number() OVER () AS n FROM (
        SELECT id FROM said ORDER BY body <@> rag_bm25_query($1, 'said_body'), id) s) n;

-- words beside signs
EXECUTE found('Linux');
EXECUTE found('output');
EXECUTE found('server');
EXECUTE found('2024');
EXECUTE found('1042');
EXECUTE found('finalName');
EXECUTE found('name');
EXECUTE found('session');
EXECUTE found('lock.rs');
-- the word itself comes before the part of a name
EXECUTE found('commit');
EXECUTE found('lock');
-- codes with and without signs, and in other spellings
EXECUTE found('E-1042');
EXECUTE found('e1042');
EXECUTE found('E_1042');
EXECUTE found('25532');
EXECUTE found('-25532');
EXECUTE found('so25532');
EXECUTE found('ErrAuthTimeout');
EXECUTE found('err-auth-timeout');
EXECUTE found('timeout');
EXECUTE found('2.11');
EXECUTE found('2.11.3');
EXECUTE found('solar charge pro');
EXECUTE found('settings.yaml');
EXECUTE found('X200');
-- forms of Unicode
EXECUTE found('Größe');
EXECUTE found('Gro' || chr(776) || 'ße');
EXECUTE found('Café');
EXECUTE found('Kaffeemaschine');
EXECUTE found('ＳＯ－２５５３２');
-- scripts without blanks
EXECUTE found('水漏れ');
EXECUTE found('水');
EXECUTE found('E-105');
EXECUTE found('表示');
EXECUTE found('数据库');
EXECUTE found('물');
EXECUTE found('데이터베이스');
EXECUTE found('รั่ว');
-- nothing
EXECUTE found('E-104');
EXECUTE found('& / -- ..');

-- the operator and the index agree, whatever the plan
PREPARE differences(regclass) AS
    SELECT count(*) FROM said, (SELECT body AS asked FROM said) q
    WHERE body <@> rag_bm25_query(asked, $1)
        <> -coalesce((SELECT score FROM rag_bm25_search($1, asked, 100) f
            WHERE f.ctid = said.ctid), 0);
EXECUTE differences('said_body');
SELECT * FROM rag_check_index('said_body');
INSERT INTO said VALUES (15, 'written later: src/lock.rs');
EXECUTE found('lock.rs');
EXECUTE differences('said_body');
SELECT count(*) FROM said WHERE body @@@ 'lock';
SELECT count(*) FROM said WHERE body !@@@ 'lock' AND id > 0;

-- the other analyses
CREATE INDEX said_code ON said USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'code');
CREATE INDEX said_exact ON said USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'exact');
SELECT i, text_config, analysis, accents FROM unnest('{said_body,said_code,said_exact}'::text[]) i,
    rag_bm25_info(i::regclass);
EXECUTE differences('said_code');
EXECUTE differences('said_exact');
SELECT q, string_agg(id::text, ' ' ORDER BY -score, id) FILTER (WHERE i = 'said_code') AS code
     , string_agg(id::text, ' ' ORDER BY -score, id) FILTER (WHERE i = 'said_exact') AS exact
    FROM unnest('{commit,commits,the,in,session,Linux,locks}'::text[]) q,
        unnest('{said_code,said_exact}'::text[]) i,
        rag_bm25_search(i::regclass, q, 100) f JOIN said ON said.ctid = f.ctid
    GROUP BY q ORDER BY q;
DROP INDEX said_code, said_exact;

-- accents
CREATE INDEX said_folded ON said USING rag_bm25 (body)
    WITH (text_config = 'simple', accents = 'fold');
SELECT q, string_agg(id::text, ' ' ORDER BY id) AS ids
    FROM unnest('{Cafe,Café,grosse,Große,Bucher,muller}'::text[]) q,
        rag_bm25_search('said_folded', q, 100) f JOIN said ON said.ctid = f.ctid
    GROUP BY q ORDER BY q COLLATE "C";
EXECUTE differences('said_folded');
DROP INDEX said_folded;

-- a changed option applies after REINDEX
ALTER INDEX said_body SET (analysis = 'exact');
EXECUTE found('output');
SELECT analysis, hint FROM rag_bm25_info('said_body');
REINDEX INDEX said_body;
EXECUTE found('output');
SELECT analysis, hint FROM rag_bm25_info('said_body');

-- values that do not exist
CREATE INDEX ON said USING rag_bm25 (body) WITH (text_config = 'english', analysis = 'prose');
CREATE INDEX ON said USING rag_bm25 (body) WITH (text_config = 'english', accents = 'on');
ALTER INDEX said_body SET (analysis = '');

-- partitions must agree
CREATE TABLE parted (id int, body text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (100) TO (200);
INSERT INTO parted SELECT id, body FROM said;
INSERT INTO parted SELECT id + 100, body FROM said;
CREATE INDEX ON parted_1 USING rag_bm25 (body) WITH (text_config = 'english', analysis = 'exact');
CREATE INDEX parted_body ON parted USING rag_bm25 (body) WITH (text_config = 'english');
SELECT count(*) FROM parted WHERE body @@@ rag_bm25_query('output', 'parted_body');
ALTER INDEX parted_1_body_idx RESET (analysis);
REINDEX INDEX parted_1_body_idx;
SELECT count(*) FROM parted WHERE body @@@ rag_bm25_query('output', 'parted_body');

-- a thesaurus reads several words at once; compounds are found all the same
CREATE TEXT SEARCH DICTIONARY stars (
    TEMPLATE = thesaurus, DictFile = thesaurus_sample, Dictionary = english_stem);
CREATE TEXT SEARCH CONFIGURATION astro (COPY = english);
ALTER TEXT SEARCH CONFIGURATION astro ALTER MAPPING FOR asciiword, asciihword, hword_asciipart
    WITH stars, english_stem;
CREATE TABLE sky (id int, body text);
CREATE INDEX sky_body ON sky USING rag_bm25 (body) WITH (text_config = 'public.astro');
INSERT INTO sky VALUES (1, 'supernovae stars in src/sky.rs'), (2, 'the SkyMap of stars');
SELECT id FROM sky ORDER BY body <@> 'sn', id;
SELECT id FROM sky ORDER BY body <@> 'sky', id;
SELECT * FROM rag_check_index('sky_body');
-- an index keeps the words that its configuration made
SELECT hint FROM rag_bm25_info('sky_body');
ALTER TEXT SEARCH CONFIGURATION astro ALTER MAPPING FOR asciiword WITH simple;
SELECT hint FROM rag_bm25_info('sky_body');
REINDEX INDEX sky_body;
SELECT hint FROM rag_bm25_info('sky_body');
ALTER TEXT SEARCH DICTIONARY stars (DictFile = thesaurus_sample, Dictionary = english_stem);
SELECT hint FROM rag_bm25_info('sky_body');
ALTER TEXT SEARCH DICTIONARY stars (Dictionary = simple);
SELECT hint FROM rag_bm25_info('sky_body');
DROP TABLE sky;
DROP TEXT SEARCH CONFIGURATION astro;
DROP TEXT SEARCH DICTIONARY stars;

-- random texts of codes, paths and scripts
CREATE FUNCTION random_text(seed int) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg((ARRAY['E-', 'x', 'lock', '.rs', '/', '_', 'Commit', '117', ' ', ' ',
        'のエラー', '水漏れ', '물이', 'รั่ว', 'é', '-', '::', '2.11', ', ', 'the'])[
        1 + ('x' || substr(md5(seed || ' ' || i), 1, 6))::bit(24)::int % 20], '')
    FROM generate_series(1, 12) i $$;
CREATE TABLE noise AS SELECT i AS id, random_text(i) AS body FROM generate_series(1, 400) i;
CREATE INDEX noise_body ON noise USING rag_bm25 (body) WITH (text_config = 'english');
INSERT INTO noise SELECT i, random_text(i) FROM generate_series(401, 500) i;
SELECT count(*) > 0 AS found, count(*) FILTER (WHERE f.score IS DISTINCT FROM -(n.body <@>
        rag_bm25_query(random_text(q), 'noise_body'))) AS differences
    FROM generate_series(1000, 1030) q, rag_bm25_search('noise_body', random_text(q), 1000) f
    JOIN noise n ON n.ctid = f.ctid;
SELECT count(*) AS lost FROM generate_series(1, 500, 7) q JOIN noise n ON n.id = q
    WHERE NOT EXISTS (SELECT FROM rag_bm25_search('noise_body', rag_escape_query(n.body), 1000) f
        WHERE f.ctid = n.ctid) AND rag_internal.bm25_has_words(
            'english'::regconfig, 'words', n.body);
SELECT * FROM rag_check_index('noise_body');

DROP TABLE noise, parted, said;
DROP FUNCTION random_text;
