# The cache of embeddings: what was embedded before is not embedded again, whatever became of the
# collection, the run or the transaction; and the limits of that.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagLlm;

my $node = rag_node('embedding_cache',
	conf => "rag.allowed_private_hosts = '127.0.0.1'\nrag.scheduler = off");
# before the first session, which would never end otherwise: the server would have its pipes
RagLlm::origin('open');
my $oid = $node->safe_psql('postgres',
	'SELECT oid FROM pg_database WHERE datname = current_database()');
my $file = $node->data_dir . "/pg_rag/embeddings/$oid.cache";

sub create_model
{
	my ($name, $fields) = @_;
	my $origin = RagLlm::origin($name);
	$node->safe_psql('postgres',
		"SELECT rag_create_model('$name', 'embedding', 'openai',
			'{\"base_url\": \"$origin\", \"model\": \"tiny\"$fields}')");
	return;
}

# A collection with a source of the same name.
sub create_collection
{
	my ($name, $model, $folder) = @_;
	my $named = $model ? ", model => '$model'" : '';
	$node->safe_psql('postgres',
		"SELECT rag_create_collection('$name'$named);
		 SELECT rag_create_source('$name', 'folder', '{\"path\": \"$folder\"}',
			collection => '$name')");
	return;
}

sub drop_collection
{
	my ($name) = @_;
	$node->safe_psql('postgres',
		"SELECT rag_drop_source('$name', keep_documents => false);
		 SELECT rag_drop_collection('$name')");
	return;
}

sub texts { return map { "Document $_ is about a number." } @_ }

sub folder
{
	my @texts = @_;
	my $folder = RagCluster::temp_folder();
	RagCluster::write_file(sprintf('%s/%04d.txt', $folder, $_), $texts[$_]) for 0 .. $#texts;
	return $folder;
}

# Syncs a source. Returns phase, embedded and reused chunks, and error of the run.
sub sync
{
	my ($name) = @_;
	run_sql($node, "SELECT rag_sync('$name')");
	return ask($node, "SELECT phase, chunks_embedded, chunks_reused, errors FROM rag.runs
		WHERE source = '$name' ORDER BY run_id DESC LIMIT 1");
}

# The texts that a server was asked for, without those that describe a model.
sub asked
{
	my ($name) = @_;
	my @texts = map { @{ $_->{body}{input} } } RagLlm::requests($name);
	return grep { /number|text/ } @texts;
}

sub entries { return ask($node, 'SELECT entries FROM rag.embedding_cache') }
sub add { return "SELECT action FROM rag_add_document('$_[0]', 'new', collection => '$_[1]')" }

# -- a collection is dropped and filled again
is(entries(), '0', 'the cache is empty');
my $folder = folder(texts(1 .. 20));
create_collection('near', undef, $folder);
like(sync('near'), qr/^Completed\|20\|0\|/, 'a model on this server embeds');
is(entries(), '20', 'its embeddings are cached');
my $vectors = "SELECT md5(string_agg(embedding::text, ' ' ORDER BY content))
	FROM rag.chunks WHERE collection = 'near'";
my $before = ask($node, $vectors);
drop_collection('near');
create_collection('near', undef, $folder);
like(sync('near'), qr/^Completed\|0\|20\|/, 'a collection that is filled again embeds nothing');
is(ask($node, $vectors), $before, 'its embeddings are the same');

create_model('open', ', "batch": 8');
create_collection('far', 'open', $folder);
like(sync('far'), qr/^Completed\|20\|0\|/, 'so does one on another server');
RagLlm::requests('open');
drop_collection('far');
create_collection('far', 'open', $folder);
like(sync('far'), qr/^Completed\|0\|20\|/, 'again nothing is embedded');
is(scalar asked('open'), 0, 'the server is asked for no document');
is(entries(), '40', 'each model has embeddings of its own');

# -- a transaction that is rolled back
run_sql($node, 'BEGIN; ' . add('A new text.', 'far') . '; ROLLBACK');
is_deeply([ asked('open') ], ['A new text.'], 'a document of a transaction that is rolled back');
is(run_sql($node, add('A new text.', 'far'))->{out}, 'added',
	'a document that was rolled back is added again');
is(scalar asked('open'), 0, 'adding it again needs no request');

# -- a crash
$node->stop('immediate');
$node->start;
drop_collection('far');
create_collection('far', 'open', $folder);
like(sync('far'), qr/^Completed\|0\|20\|/, 'the cache survives a crash of the server');

# -- roles
$node->safe_psql('postgres', "CREATE ROLE other LOGIN; GRANT rag_admin TO other;
	CREATE ROLE reader LOGIN; GRANT rag_reader TO reader;
	SELECT rag_drop_source('far', keep_documents => false);
	SELECT rag_drop_collection('far');
	SELECT rag_grant_model('open', 'other');
	SET ROLE other; SELECT rag_create_collection('others', model => 'open')");
RagLlm::requests('open');
run_sql($node, 'SET ROLE other; ' . add('A new text.', 'others'));
is_deeply([ asked('open') ], ['A new text.'],
	'a role that has the same text does not find what others had embedded');
is(run_sql($node, 'SET ROLE reader; SELECT count(*) FROM rag.embedding_cache')->{out},
	'0', 'a reader does not learn how much is cached');
is( run_sql($node, "SET ROLE reader; SELECT count(*) FROM rag.metrics
		WHERE name LIKE 'rag_embedding_cache%'")->{out},
	'0', 'a reader does not learn it from metrics');
is( ask($node, "SELECT string_agg(name, ' ' ORDER BY name) FROM rag.metrics
		WHERE name LIKE 'rag_embedding_cache%' AND value > 0"),
	'rag_embedding_cache_bytes rag_embedding_cache_entries',
	'rag.metrics has the size of the cache');
error_like(run_sql($node, 'SET ROLE reader; SELECT rag_clear_embedding_cache()'),
	'42501', qr/permission denied for function rag_clear_embedding_cache/,
	undef, 'nor may it clear the cache');
error_like(
	run_sql($node, 'CREATE ROLE keeper IN ROLE rag_admin; SET ROLE keeper;
		SELECT rag_clear_embedding_cache()'),
	'42501', qr/permission denied to clear the cache of embeddings/,
	'owner of the database', 'nor an admin who does not own the database');
is(sprintf('%o', (stat $file)[2] & 07777), '600', 'only the server reads the file');

# -- a server that fails in the middle of a run
create_model('mortal', ', "batch": 8, "concurrency": 1');
create_collection('mortal', 'mortal', folder(texts(1 .. 40)));
like(sync('mortal'), qr/^Failed\|0\|0\|.*has failed/, 'a server fails in the middle of a run');
my @batches = grep { /number/ } map { $_->{body}{input}[0] } RagLlm::requests('mortal');
is(scalar @batches, 6, 'two requests succeed, and one is tried four times');
RagLlm::heal('mortal');
like(sync('mortal'), qr/^Completed\|24\|16\|/, 'the next run embeds the rest');
is(scalar asked('mortal'), 24, 'nothing is asked for twice');
drop_collection('mortal');

# -- requests in progress when a run fails
create_model('refusing', ', "batch": 32, "concurrency": 4');
my @texts = texts(1 .. 300);
$texts[40] = 'The number of this one is refused.';
create_collection('refusing', 'refusing', folder(@texts));
my $others = entries();
like(sync('refusing'), qr/^Failed\|0\|0\|.*requires a key/, 'one request of several is refused');
my $paid = asked('refusing') - 32;
cmp_ok($paid, '>=', 128, 'other batches were on their way');
is(entries() - $others, $paid, 'what they brought is cached');
RagLlm::heal('refusing');
like(sync('refusing'), qr/^Completed\|/, 'the next run completes');
is(scalar asked('refusing'), 300 - $paid, 'and asks for what it lacks');

# -- a dropped model
drop_collection('refusing');
$node->safe_psql('postgres', "SELECT rag_drop_model('refusing')");
is(entries(), $others, 'a dropped model takes its embeddings with it');

# -- a server that has another model than before
create_model('changing', ', "batch": 8');
create_collection('changing', 'changing', $folder);
like(sync('changing'), qr/^Completed\|20\|0\|/,
	'texts that are not cached are embedded by the server');
drop_collection('changing');
RagLlm::says('changing', 24);
create_collection('changing', 'changing', $folder);
like(sync('changing'), qr/^Completed\|20\|0\|/, 'vectors of other dimensions are not used');
drop_collection('changing');
create_collection('changing', 'changing', $folder);
like(sync('changing'), qr/^Completed\|0\|20\|/, 'the new ones replace them');

# -- a damaged file
drop_collection('changing');
open my $damaged, '+<', $file or die $!;
for my $offset (map { 4096 + 65536 * $_ } 0 .. 4094)
{
	seek $damaged, $offset + 40, 0;
	print $damaged "\xff" x 1000;
}
close $damaged;
create_collection('changing', 'changing', $folder);
my $after = sync('changing');
like($after, qr/^Completed\|/, 'damage fails no run');
unlike($after, qr/^Completed\|0\|/, 'damaged embeddings are computed again');
is( ask($node, "SELECT count(DISTINCT embedding::text) FROM rag.chunks
		WHERE collection = 'changing'"),
	ask($node, "SELECT count(DISTINCT rag_embed(content, 'changing', 'passage')::text)
		FROM rag.chunks WHERE collection = 'changing'"),
	'nothing wrong is stored');

# -- limits
configure($node, 'rag.embedding_cache_size', '1MB');
create_model('large', ', "batch": 100, "dimensions": 1500');
create_collection('large', 'large', folder(texts(1 .. 400)));
like(sync('large'), qr/^Completed\|400\|0\|/, 'more is embedded than the cache can have');
cmp_ok(-s $file, '<=', 1 << 20, 'the file has the size that the setting allows');
is(ask($node, 'SELECT bytes <= max_bytes AND max_bytes = 1048576 FROM rag.embedding_cache'),
	't', 'the view shows both');
drop_collection('large');
create_collection('large', 'large', folder(texts(391 .. 400)));
like(sync('large'), qr/^Completed\|0\|10\|/, 'the newest embeddings are there');
is( run_sql($node, 'SELECT rag_clear_embedding_cache() > 50')->{out},
	't', 'the cache is cleared');
is(entries(), '0', 'the cleared cache is empty');
ok(!-e $file, 'the file is gone');
configure($node, 'rag.embedding_cache_size', '0');
run_sql($node, add('Another text.', 'large'));
is(entries(), '0', 'without a size nothing is cached');
configure($node, 'rag.embedding_cache_size');

# -- cleanup
run_sql($node, add('One more text.', 'large'));
ok(-e $file, 'the cache is in use again');
$node->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION rag CASCADE');
ok(!-e $file, 'DROP EXTENSION removes it');
is_deeply([ glob($node->data_dir . '/pg_rag/embeddings/*') ], [], 'and all files beside it');

done_testing();
