# No form of a statement that contains rag_create_secret brings the value into the log, whatever is
# logged.
use strict;
use warnings;
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;
use RagCluster;

my $node = rag_node('secret_log');
my %verbose = (
	log_statement => 'all',
	log_min_duration_statement => '0',
	log_parameter_max_length_on_error => '-1',
	log_min_messages => 'notice',
	log_error_verbosity => 'verbose');
configure($node, $_, $verbose{$_}) for keys %verbose;

# Runs a statement that contains the value. Returns the error.
my $count = 0;

sub keeps_its_secret
{
	my ($name, $statement, %option) = @_;
	my $word = 'CaNaRy' . ++$count . 'x';
	configure($node, 'log_statement', 'none') if $option{unknown};
	my $result = run_sql($node, $statement =~ s/WORD/$word/gr);
	configure($node, 'log_statement', 'all') if $option{unknown};
	$option{fails}
	  ? like($result->{err}, qr/ERROR:  $option{fails}.*/, "$name fails")
	  : is($result->{rc}, 0, $name) || diag($result->{err});
	like($result->{err}, qr/$word/, "$name: the client gets the error") if $option{told};
	my @shown = grep { /$word/ } split /\n/, slurp_file($node->logfile);
	is_deeply(\@shown, [], "$name: the log does not contain the value");
	return;
}

keeps_its_secret('a plain call', "SELECT rag_create_secret('s', 'WORD')");
keeps_its_secret('a value before the call',
	"WITH s AS (SELECT 'WORD' AS v) SELECT rag_create_secret('s', v) FROM s");
keeps_its_secret('a value beside the call', "SELECT 'WORD' AS note, rag_create_secret('s', 'x')");
keeps_its_secret('a DO block',
	"DO \$\$ DECLARE v text := 'WORD'; BEGIN PERFORM rag_create_secret('s', v); END \$\$");
keeps_its_secret('a quoted name',
	"WITH s AS (SELECT 'WORD' AS v) SELECT public.\"rag_create_secret\"('s', v) FROM s");
keeps_its_secret('an escaped name', "SELECT 'WORD', U&\"rag\\005fcreate_secret\"('s', 'WORD')");
keeps_its_secret('another escape',
	"SELECT U&\"rag!+00005fcreate_secr!0065t\" UESCAPE '!' ('s', 'WORD')");
keeps_its_secret('a prepared statement',
	"PREPARE p(text) AS SELECT rag_create_secret('s', \$1); EXECUTE p('WORD')");
keeps_its_secret('a comment', "/* WORD */ SELECT rag_create_secret('s', 'x')");
keeps_its_secret('COPY', "COPY (SELECT 'WORD', rag_create_secret('s', 'WORD')) TO STDOUT");

# errors before, in and after the call
keeps_its_secret(
	'a value of another type', "SELECT rag_create_secret('s', 'WORD'::int::text)",
	fails => '22P02',
	told => 1);
keeps_its_secret(
	'a syntax error', "SELECT rag_create_secret('s', 'x') WORD WORD",
	fails => '42601',
	told => 1);
keeps_its_secret(
	'an error of its own',
	"SELECT rag_create_secret('s', 'WORD', 'Bad key')",
	fails => '42602');
keeps_its_secret(
	'an error afterwards',
	"SELECT rag_create_secret('s', 'x'), ('WORD' || count(*))::int FROM rag.secrets",
	fails => '22P02',
	told => 1);
keeps_its_secret(
	'an error in a block',
	"DO \$\$ BEGIN PERFORM rag_create_secret('s', 'x'); RAISE EXCEPTION 'it was %', 'WORD';
		END \$\$",
	fails => 'P0001',
	told => 1);
keeps_its_secret(
	'a notice in a block',
	"DO \$\$ BEGIN PERFORM rag_create_secret('s', 'x'); RAISE NOTICE 'it was %', 'WORD'; END \$\$",
	told => 1);
my $failed_with_secret =
  'a statement with a secret failed with SQLSTATE 22P02; its error may contain the secret';
like(
	slurp_file($node->logfile),
	qr/LOG:  \w+: rag: \Q$failed_with_secret\E/,
	'the log reports that a statement with a secret failed');
like(
	slurp_file($node->logfile),
	qr/ERROR:  42883: function rag_create_secret/,
	'the log contains an error that quotes nothing'
) if run_sql($node, "SELECT rag_create_secret(1, 2, 3, 4, 5)");

# a function that calls rag_create_secret: after the first execution the statement is known
$node->safe_psql(
	'postgres',
	"CREATE FUNCTION wrapped(v text) RETURNS void LANGUAGE plpgsql AS \$\$
		BEGIN PERFORM rag_create_secret('s', v); END \$\$"
);
keeps_its_secret('a function around it', "SELECT wrapped('WORD')", unknown => 1);
keeps_its_secret(
	'an error after that', "SELECT wrapped('x'), ('WORD' || count(*))::int FROM rag.secrets",
	unknown => 1,
	fails => '22P02',
	told => 1);

# credentials where none may be: the statement is refused, and not logged for that
my $openai = '"base_url": "https://models.example.org", "model": "m"';
keeps_its_secret(
	$_->[0], $_->[1],
	unknown => 1,
	fails => '22023')
  for (
	[ 'a plain key of a model',
		"SELECT rag_create_model('m', 'chat', 'openai', '{$openai, \"api_key\": \"WORD\"}')" ],
	[ 'a misspelt key',
		"SELECT rag_create_model('m', 'chat', 'openai', '{$openai, \"apikey\": \"WORD\"}')" ],
	[ 'a password in an address',
		"SELECT rag_create_source('s', 'git', '{\"repositoryURL\":
			\"https://user:WORD\@example.org/x.git\", \"branch\": \"main\"}')" ],
	[ 'a password of a retriever',
		"SELECT rag_create_retriever('r', '{\"storageConfig\": {\"type\": \"qdrant\",
			\"url\": \"https://example.org\", \"password\": \"WORD\"}}')" ],
	[ 'a manifest with a secret',
		"SELECT rag_apply_manifest('{apiVersion: v1, kind: Secret, metadata: {name: s},
			stringData: {key: WORD}}')" ],
	[ 'a key within a block',
		"DO \$\$ BEGIN PERFORM rag_create_model('m', 'chat', 'openai',
			'{$openai, \"api_key\": \"WORD\"}'); END \$\$" ]);

# statements of other sessions are logged completely
run_sql($node, "SELECT 'nothing' || ' to hide'");
run_sql($node, "SELECT 'noth ing'::int");
like(
	slurp_file($node->logfile),
	qr/statement: SELECT 'nothing' \|\| ' to hide'$/m,
	'the log contains a statement without a secret');
like(
	slurp_file($node->logfile),
	qr/invalid input syntax for type integer: "noth ing"/,
	'the log contains the error of a statement without a secret');

$node->stop;
done_testing();
