# The console of rag-gateway in a real browser: log in, sources, searches, answers, rights, hostile
# documents, a phone, the keyboard, and findings of axe. It needs chromium, node and npm, and is
# skipped without them. RAG_TEST_SHOTS names a folder for pictures of the pages.
use strict;
use warnings;
use File::Basename qw(dirname);
use Test::More;
use RagCluster;
use RagGateway;
use RagLlm;

sub program
{
	my (@names) = @_;
	for my $name (@names)
	{
		for my $folder (split /:/, $ENV{PATH})
		{
			return "$folder/$name" if -x "$folder/$name";
		}
	}
	return;
}
my $chromium = $ENV{RAG_TEST_CHROMIUM} // program(qw(chromium chromium-browser google-chrome));
my ($node_js, $npm) = (program('node'), program('npm'));
plan skip_all => 'chromium is missing' if !$chromium;
plan skip_all => 'node or npm is missing' if !$node_js || !$npm;

# the packages that package-lock.json pins
my $client = dirname(__FILE__) . '/../../clients/console';
my $packages = temp_folder();
system("cp $client/package.json $client/package-lock.json $packages"
	  . " && cd $packages && HOME=$packages npm ci --no-audit --no-fund >log 2>&1") == 0
  or plan skip_all => 'npm could not fetch playwright-core and axe-core';

my $node = rag_node('console', scheduler => 1,
	conf => "rag.allowed_private_hosts = '127.0.0.1'");
my $handbook = temp_folder();
write_documents($handbook, 3, 2);
write_file("$handbook/rotate.md",
	"---\nowner: security\n---\n# Rotating the signing keys\n\n"
	  . "A signing key is replaced every 90 days. Rotate the signing keys with keyctl.\n");
my $origin = RagLlm::origin('good');
$node->safe_psql(
	'postgres', qq{
	CREATE ROLE adm IN ROLE rag_admin;
	CREATE ROLE web IN ROLE rag_reader;
	SELECT rag_create_collection('secret');
	SELECT rag_grant_collection('default', 'adm', 'write'),
		rag_grant_collection('default', 'web', 'read'),
		rag_grant_collection('secret', 'adm', 'write');
	SELECT rag_create_model('good', 'chat', 'openai',
		'{"base_url": "$origin/v1", "model": "tiny"}');
	SELECT rag_grant_model('good', 'public');
	ALTER DATABASE postgres SET rag.chat_model = 'good';
	GRANT pg_read_server_files TO adm;
	SELECT count(rag_create_source('bulk' || i, 'folder', '{"path": "$handbook"}', 'secret',
		suspend => true)) FROM generate_series(1, 1000) i;
	SELECT rag_add_document(\$\$# Poison

Poison <script>window.hacked = 1</script>, an image <img src=x onerror="window.hacked=2">,
[a link](javascript:window.hacked=3) and <a href="javascript:window.hacked=4">another</a>.\$\$,
		'javascript:window.hacked=5', title => '<script>window.hacked = 6</script>',
		metadata => '{"<img src=x onerror=window.hacked=7>": "<b>bold</b>"}');
});
RagLlm::says('good', 'A signing key is replaced every 90 days [1].');
my $gateway = RagGateway->start($node);
my %environment = (
	CONSOLE_URL => $gateway->url . '/',
	CHROMIUM => $chromium,
	KEY_ADMIN => $gateway->key('adm'),
	KEY_READER => $gateway->key('web'),
	HANDBOOK => $handbook,
	NODE_MODULES => "$packages/node_modules",
	SHOTS => $ENV{RAG_TEST_SHOTS} // '',
	HOME => $packages);
local @ENV{ keys %environment } = values %environment;
open my $tests, '-|', "$node_js $client/run.js 2>&1" or die $!;
my $planned = 0;
while (my $line = <$tests>)
{
	chomp $line;
	if ($line =~ /^(not )?ok \d+ - (.*)/) { ok(!$1, $2) }
	elsif ($line =~ /^1\.\.\d+$/) { $planned = 1 }
	else { diag($line) }
}
close $tests;
ok($planned, 'the browser came to the end');
done_testing();
