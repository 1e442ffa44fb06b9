# Persistence under load: a server that is killed during operations, sessions that write to the same
# collections, and many documents. For tests/t/long/persistence.pl.
package RagPersistenceLoad;

use strict;
use warnings;

use Encode ();
use Exporter 'import';
use IPC::Run;
use RagCluster;
use RagPersistenceOperations;
use RagPersistenceProperties;
use Test::More;
use Time::HiRes qw(usleep);

# Operations of one statement, which happen or do not.
my @atomic = qw(add replace repeat add_many fail update remove given delete_chunk alter);

our @EXPORT = qw(crashes many_sessions many_documents);

# The server is killed while a session works on some collections. Each operation has happened, or
# has not.
sub crashes
{
	my ($test, $rounds) = @_;
	my $node = $test->{node};
	my @names = map { "crash$_" } 1 .. 20;
	my @wrong = map { $test->fill($test->create($_), 3) } @names;
	my ($done, $lost) = (0, 0);
	for my $round (1 .. $rounds)
	{
		my %operation = map { $_ => possible($test, $test->{collections}{$_}, @atomic) }
		  map { $test->one_of(@names) } 1 .. 8;
		my @some = sort keys %operation;
		push @wrong, $test->wrong(@some);
		my $session = start_sql($node,
			Encode::encode_utf8(join '; ', map { $operation{$_}{sql} } @some));
		usleep(1000 * $test->pick(150));
		crash($node);
		eval { $session->finish };
		for my $name (@some)
		{
			my $c = $test->{collections}{$name};
			my $is_as_before = !$test->wrong($name);
			$is_as_before ? $lost++ : $done++;
			next if $is_as_before;
			$operation{$name}{apply}->();
			$c->{was_indexed} ||= grep { defined $_->{content} } values %{ $c->{documents} };
			push @wrong, map { "round $round, $operation{$name}{name}: $_" } $test->wrong($name);
		}
		push @wrong, broken_indexes($test->{node});
	}
	push @wrong, map { $test->wrong_answers($test->{collections}{$_}) } @names;
	result($test, "$rounds crashes: $done operations have happened, $lost have not", @wrong);
	is($test->query("SELECT count(rag_drop_collection(name, with_sources => true))
		FROM rag.collections WHERE name LIKE 'crash%'"), scalar @names,
		'all collections of the crashes are dropped');
	is($test->left_of(@names), '', 'nothing is left of them');
	return;
}

# Problems of all indexes of collections.
sub broken_indexes
{
	my ($node) = @_;
	my $problems = ask($node, q{SELECT i.indexrelid::regclass || ': ' || c.problem
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am a ON a.oid = x.relam
			JOIN pg_inherits p ON p.inhrelid = i.indrelid,
			LATERAL rag_check_index(i.indexrelid) AS c (problem)
		WHERE p.inhparent = 'rag.chunks'::regclass AND a.amname IN ('rag_bm25', 'rag_hnsw')});
	return grep { $_ ne '' } split /\n/, $problems;
}

# Sessions that add, replace, remove and search documents in each of some collections.
sub many_sessions
{
	my ($node, $collections, $each, $seconds) = @_;
	$node->safe_psql('postgres', "SELECT rag_create_collection('load' || i)
		FROM generate_series(0, $collections - 1) AS i");
	my $folder = temp_folder();
	my $collection = "'load' || (:client_id % $collections)";
	my %script = (
		add => [ 6, "SELECT success FROM rag_add_document('Session :client_id writes document :n, '
			|| 'version ' || (1000 * random())::int, 'c:client_id-:n',
			collection => $collection);" ],
		remove => [ 2, "SELECT rag_delete_document(document_id) FROM rag.documents
			WHERE collection = $collection AND uri = 'c:client_id-:n';" ],
		search => [ 3, "SELECT count(*) FROM rag_search('document :n', $collection);" ],
		status => [ 1, "SELECT state FROM rag_collection_status($collection);" ]);
	my @files = map {
		'--file=' . write_file("$folder/$_.sql", "\\set n random(1, 5)\n$script{$_}[1]\n")
		  . '@' . $script{$_}[0]
	} sort keys %script;
	my $clients = $collections * $each;
	my ($out, $err) = ('', '');
	my $succeeds = IPC::Run::run([ $node->installed_command('pgbench'), '--no-vacuum',
			"--client=$clients", "--time=$seconds", @files, $node->connstr('postgres') ],
		'<', \undef, '>', \$out, '2>', \$err);
	ok($succeeds, "$clients sessions in $collections collections: none fails") or diag($err);
	is($err =~ s/^pgbench \(.*\n//r, '', 'no statement of a session fails');
	note($out);
	my @wrong = broken_indexes($node);
	for my $n (0 .. $collections - 1)
	{
		my $stored = stored($node, "load$n");
		push @wrong, "load$n: $stored" if $stored !~ /\A0\n0\n/;
		my $strangers = ask($node, "SELECT count(*) FROM rag.documents WHERE collection = 'load$n'
			AND substring(uri FROM '^c(\\d+)-')::int % $collections <> $n");
		push @wrong, "load$n: $strangers documents of other sessions" if $strangers ne '0';
		my $counts = ask($node, "SELECT (s.document_count, s.error_count, s.chunk_count)
				IS DISTINCT FROM (SELECT (count(*), 0::bigint, sum(chunk_count))
					FROM rag.documents WHERE collection = 'load$n')
			FROM rag_collection_status('load$n') AS s");
		push @wrong, "load$n: wrong counts" if $counts ne 'f';
	}
	is(join("\n", @wrong), '', "all $collections collections are sound");
	$node->safe_psql('postgres', "SELECT count(rag_drop_collection(name)) FROM rag.collections
		WHERE name LIKE 'load%'");
	return;
}

# A source with many documents through restarts and crashes.
sub many_documents
{
	my ($node, $count) = @_;
	$node->safe_psql('postgres', "
		CREATE TABLE rows (id int PRIMARY KEY, body text);
		INSERT INTO rows SELECT i, 'Row ' || i || ' is about ' || md5(i::text)
			FROM generate_series(1, $count) AS i;
		SELECT rag_create_collection('many');
		SELECT rag_create_source('rows', 'table', '{\"relation\": \"rows\"}', 'many')");
	sync_ok($node, 'rows', "$count documents are synced");
	my $answers = q{SELECT string_agg(s.uri, ' ' ORDER BY i, s.rank)
		FROM generate_series(1, 20) AS i, rag_search('row ' || 17 * i || ' ' || md5((17 * i)::text),
			'many') AS s};
	my $is_sound = sub {
		my ($when, $state, $expected) = @_;
		is(stored($node, 'many'), $state, "$when: all documents are as before");
		is(ask($node, $answers), $expected, "$when: the answers are the same");
		is(ask($node, q{SELECT state, document_count, has_vector_index
			FROM rag_collection_status('many')}), "ready|$count|t",
			"$when: the status is ready with all documents");
		is(join("\n", broken_indexes($node)), '', "$when: the indexes are sound");
	};
	my $state = stored($node, 'many');
	my $expected = ask($node, $answers);
	like($state, qr/\A0\n0\n$count\|/, 'all documents are whole');
	$node->restart;
	$is_sound->('a restart', $state, $expected);
	$node->stop('immediate');
	$node->start;
	$is_sound->('an immediate shutdown', $state, $expected);

	# killed during a sync of a tenth of the rows, which the next sync ends
	$node->safe_psql('postgres', q{UPDATE rows SET body = body || ' again' WHERE id % 10 = 0});
	my $sync = start_sql($node, q{SELECT rag_sync('rows')});
	await('the sync has stored some', sub { ask($node, q{SELECT count(*) > 100 FROM rag.documents
		WHERE collection = 'many' AND content LIKE '% again'}) eq 't' });
	crash($node);
	eval { $sync->finish };
	like(stored($node, 'many'), qr/\A0\n0\n$count\|/, 'kill -9 during a sync: documents are whole');
	is(join("\n", broken_indexes($node)), '', 'kill -9 during a sync: the indexes are sound');
	sync_ok($node, 'rows', 'the next sync goes on');
	is(ask($node, q{SELECT count(*) FROM rag.documents d JOIN rows r ON d.content LIKE
		'%' || r.body AND d.uri LIKE '%/' || r.id WHERE d.collection = 'many'}), $count,
		'then all documents are those of the table');
	($state, $expected) = (stored($node, 'many'), ask($node, $answers));
	crash($node);
	$is_sound->('kill -9', $state, $expected);
	return;
}

1;
