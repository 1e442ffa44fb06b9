# Updates of all vectors, which lie in clusters, leave an index like a new one. And a check of an
# index reports nothing of what is written while it reads.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use RagHnsw;
use RagHnswRounds;

my $node = rounds_node('rounds', clusters => 30, rows => 6000, seed => seed());
test_rounds($node, rounds => 3, nearest => [ 10, 300 ]);

# -- a check beside writers
# ----------------------------------------

my $script = PostgreSQL::Test::Utils::tempdir() . '/write.sql';
append_to_file($script, <<'SQL');
\set id random(1, 6000)
INSERT INTO t VALUES (DEFAULT, near(:id));
UPDATE t SET v = near(:id) WHERE id = :id;
-- the same vector: its node gets another row
UPDATE t SET v = v WHERE id = 6001 - :id;
DELETE FROM t WHERE id > 6000 AND id % 7 = :id % 7;
SQL
$node->safe_psql('postgres',
	'CREATE SEQUENCE t_id START 6001; ALTER TABLE t ALTER id SET DEFAULT nextval($$t_id$$)');
my $writers = IPC::Run::start(
	[
		'pgbench', '--no-vacuum', '--client=2', '--time=8', "--file=$script",
		$node->connstr('postgres')
	],
	'>', \my $output,
	'2>', \my $errors);
my ($checks, @problems) = (0);
while ($writers->pumpable)
{
	$node->safe_psql('postgres', 'VACUUM t') if $checks % 5 == 4;
	my $problem =
	  $node->safe_psql('postgres', "SELECT DISTINCT problem FROM rag_check_index('t_v')");
	push @problems, $problem if $problem ne '';
	$checks++;
	$writers->pump_nb;
}
ok($writers->finish, 'writers beside the checks end without an error') or diag $errors;
is_deeply(\@problems, [], "$checks checks beside writers report nothing");
cmp_ok($checks, '>', 10, 'there were many checks');
index_is_correct($node, 't', 'the index is correct after the writers');

$node->stop;
done_testing();
