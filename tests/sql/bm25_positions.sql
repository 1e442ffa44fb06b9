-- Positions in an index rag_bm25: phrases, nearness, and where words are.
SET client_min_messages = notice;

CREATE TABLE said (id int PRIMARY KEY, body text);
INSERT INTO said VALUES
    (1, 'The write ahead log is written ahead of the data.'),
    (2, 'Ahead of the log, write the data.'),
    (3, 'lib/lock.py rocks, and so does src/lock.rs.'),
    (4, 'E-117 error at night'),
    (5, 'The e117 error'),
    (6, 'Fehler: error of E 117'),
    (7, 'Call db.session.commit() after user.save().'),
    (8, 'session commit'),
    (9, 'state of the art'),
    (10, 'a state-of-the-art method'),
    (11, 'アップデート後、AquaPump X200にE-105が表示され、12分後に水漏れが止まります。'),
    (12, '水が漏れ、水漏'),
    (13, '데이터베이스의 물이 샙니다'),
    (14, 'เครื่องรั่วหลังจากอัปเดต AquaPump X200'),
    (15, 'AT&T network'),
    (16, 'version 2.11.3 of SolarCharge Pro'),
    (17, 'log log write'),
    (18, 'the of and');
CREATE INDEX said_body ON said USING rag_bm25 (body)
    WITH (text_config = 'english', positions = on);
SELECT text_config, analysis, positions, hint FROM rag_bm25_info('said_body');

-- the rows with a phrase, by the index, and by the texts
CREATE FUNCTION quoted(phrase text, slop int DEFAULT 0) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN format('"%s"~%s', phrase, slop);
CREATE FUNCTION found(index regclass, phrase text, slop int DEFAULT 0,
    OUT ids text, OUT agree boolean)
LANGUAGE plpgsql AS $$
DECLARE
    by_texts text;
BEGIN
    SELECT string_agg(id::text, ' ' ORDER BY id) INTO ids FROM said
        WHERE ctid IN (SELECT ctid FROM rag_bm25_search(index, quoted(phrase, slop), 1000));
    SELECT string_agg(id::text, ' ' ORDER BY id) INTO by_texts
        FROM (SELECT * FROM said OFFSET 0) s
        WHERE body <@> rag_bm25_query(quoted(phrase, slop), index) < 0;
    agree := ids IS NOT DISTINCT FROM by_texts;
END $$;
CREATE VIEW asked AS SELECT * FROM (VALUES
    ('write ahead log', 0), ('write ahead log', 2), ('log ahead', 0), ('log ahead', 3),
    ('ahead of the log', 0), ('ahead the of log', 0), ('log', 0), ('log log', 0), ('log log', 9),
    ('lock.py rocks', 0), ('lock py rocks', 0), ('lib rocks', 0), ('lib rocks', 2),
    ('E-117 error', 0), ('e117 error', 0), ('error E-117', 0), ('error of E-117', 0),
    ('session.commit', 0), ('session commit', 0), ('session.commit after', 0),
    ('state-of-the-art', 0), ('state of the art', 0), ('state art', 0), ('state art', 2),
    ('水漏れ', 0), ('表示され', 0), ('水漏', 0), ('漏', 0), ('分後に水漏', 0), ('물이 샙니다', 0),
    ('물', 0), ('เครื่องรั่ว', 0), ('รั่ว', 0), ('AT&T', 0), ('AT&T network', 0),
    ('2.11.3', 0), ('2.11', 0), ('11.3 of solar', 0), ('version 2.11.3 SolarCharge', 1),
    ('the', 0), ('', 0), ('missing', 0)) a (phrase, slop);
SELECT phrase, slop, (found('said_body', phrase, slop)).* FROM asked;

-- a segment or pending documents, in any analysis; without positions
SELECT rag_bm25_merge('said_body');
CREATE INDEX said_code ON said USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'code', positions = true);
CREATE INDEX said_auto ON said USING rag_bm25 (body)
    WITH (text_config = 'rag.auto', accents = 'fold', positions = yes);
CREATE INDEX said_exact ON said USING rag_bm25 (body)
    WITH (text_config = 'english', analysis = 'exact', positions = on);
SELECT index, count(*), count(*) FILTER (WHERE (f).agree) AS agree, count((f).ids) AS found
    FROM (SELECT index, found(index, phrase, slop) f
        FROM asked, unnest('{said_body,said_code,said_auto,said_exact}'::regclass[]) index) s
    GROUP BY index ORDER BY index::text;
-- the analysis exact counts as to_tsvector does
SELECT phrase FROM asked WHERE slop = 0 AND phraseto_tsquery('english', phrase)::text <> ''
    AND (found('said_exact', phrase)).ids IS DISTINCT FROM (
        SELECT string_agg(id::text, ' ' ORDER BY id) FROM said
        WHERE to_tsvector('english', body) @@ phraseto_tsquery('english', phrase));

-- changes
UPDATE said SET body = body || ' Write ahead log.' WHERE id IN (4, 5);
DELETE FROM said WHERE id = 1;
SELECT (found('said_body', 'write ahead log')).*;
SELECT (found('said_body', 'error at night write')).*;
VACUUM said;
SELECT (found('said_body', 'write ahead log')).*;
SELECT rag_bm25_merge('said_body');
SELECT (found('said_body', 'write ahead log')).*;
SELECT * FROM rag_check_index('said_body');

-- texts with more words than a tsvector has positions, and than a page has room for
INSERT INTO said VALUES (100, repeat('log of the day ', 20000) || 'and the write ahead');
SELECT (found('said_body', 'day and the write ahead')).*,
    (found('said_exact', 'day and the write')).*;
SELECT (found('said_body', 'day the write')).*, (found('said_exact', 'day write')).*;
SELECT rag_bm25_merge('said_body'), rag_bm25_merge('said_exact');
SELECT (found('said_body', 'day and the write ahead')).*,
    (found('said_exact', 'day and the write')).*;
SELECT count(*) AS problems FROM unnest('{said_body,said_code,said_auto,said_exact}'::regclass[]) i,
    rag_check_index(i);

-- scores are those of an index without positions
CREATE INDEX said_plain ON said USING rag_bm25 (body) WITH (text_config = 'english');
SELECT count(*) AS differences FROM unnest('{log,write ahead,error E-117,水漏れ}'::text[]) q,
    LATERAL (SELECT * FROM rag_bm25_search('said_plain', q, 100)
        EXCEPT SELECT * FROM rag_bm25_search('said_body', q, 100)) s;
SELECT count(*) AS differences FROM asked
    WHERE (found('said_plain', phrase, slop)).ids
        IS DISTINCT FROM (found('said_body', phrase, slop)).ids;

-- the option
SELECT positions, hint FROM rag_bm25_info('said_plain');
ALTER INDEX said_plain SET (positions = on);
SELECT positions, hint FROM rag_bm25_info('said_plain');
INSERT INTO said VALUES (101, 'later');
REINDEX INDEX said_plain;
SELECT positions, hint FROM rag_bm25_info('said_plain');
SELECT (found('said_plain', 'day and the write ahead')).*;
CREATE INDEX ON said USING rag_bm25 (body) WITH (text_config = 'english', positions = maybe);

-- a thesaurus counts as PostgreSQL's parser does
CREATE TEXT SEARCH DICTIONARY stars (
    TEMPLATE = thesaurus, DictFile = thesaurus_sample, Dictionary = pg_catalog.english_stem);
CREATE TEXT SEARCH CONFIGURATION astro (COPY = english);
ALTER TEXT SEARCH CONFIGURATION astro ALTER MAPPING FOR asciiword WITH stars, english_stem;
CREATE TABLE sky AS SELECT 1 AS id, 'two supernovae stars, and a crab nebula in the sky' AS body;
CREATE INDEX sky_body ON sky USING rag_bm25 (body)
    WITH (text_config = 'public.astro', positions = on);
SELECT p, (SELECT count(*) FROM rag_bm25_search('sky_body', quoted(p), 10)) AS found,
    body <@> rag_bm25_query(quoted(p), 'sky_body') < 0 AS has
    FROM sky, unnest('{in the sky,sky in,crab,two}'::text[]) p;
DROP TABLE sky;
DROP TEXT SEARCH CONFIGURATION astro;
DROP TEXT SEARCH DICTIONARY stars;

-- random texts of codes, paths and scripts: each is a phrase of itself, and so is its end
CREATE FUNCTION random_text(seed int) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg((ARRAY['E-', 'x', 'lock', '.rs', '/', '_', 'Commit', '117', ' ', ' ',
        'のエラー', '水漏れ', '물이', 'รั่ว', 'é', '-', '::', '2.11', ', ', 'the'])[
        1 + ('x' || substr(md5(seed || ' ' || i), 1, 6))::bit(24)::int % 20], '')
    FROM generate_series(1, 12) i $$;
CREATE TABLE noise AS SELECT i AS id, random_text(i) || ' ' || random_text(i + 1000) AS body
    FROM generate_series(1, 400) i;
CREATE INDEX noise_body ON noise USING rag_bm25 (body)
    WITH (text_config = 'english', positions = on);
INSERT INTO noise SELECT i, random_text(i) || ' ' || random_text(i + 1000)
    FROM generate_series(401, 500) i;
SELECT count(*) AS lost FROM noise n, unnest(ARRAY[body, random_text(id + 1000)]) p
    WHERE id % 5 = 0 AND rag_internal.bm25_has_words('english'::regconfig, 'words', p)
    AND NOT EXISTS (SELECT FROM rag_bm25_search('noise_body', quoted(p), 1000) f
        WHERE f.ctid = n.ctid);
SELECT count(*) AS rows, count(*) FILTER (WHERE f.score IS DISTINCT FROM
        nullif(-(body <@> rag_bm25_query(quoted(random_text(q), slop), 'noise_body')), 0))
        AS differences
    FROM generate_series(1000, 1010) q, unnest('{0,3}'::int[]) slop, noise n
    LEFT JOIN LATERAL (SELECT * FROM rag_bm25_search(
        'noise_body', quoted(random_text(q), slop), 1000) f WHERE f.ctid = n.ctid) f ON true
    WHERE n.id % 10 = 0;
SELECT * FROM rag_check_index('noise_body');

DROP TABLE noise, said;
DROP VIEW asked;
DROP FUNCTION random_text, found, quoted;
