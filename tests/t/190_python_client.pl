# The Python client with Debian's psycopg: documents, searches, chunks, asyncio, and what it says if
# something is missing. long/clients.pl runs all of its tests.
use strict;
use warnings;
use Test::More;
use RagCluster;

my $source = "$ENV{RAG_TEST_PAGES}/clients/python/src";
plan skip_all => 'the clients are not here' if !-d $source;
plan skip_all => 'python3 has no psycopg 3.1.7' if system(
	q{python3 -c 'import psycopg; assert psycopg.__version__ >= "3.1.7"' 2>/dev/null}) != 0;

my $node = rag_node('python_client');
$node->safe_psql(
	'postgres', q{
	CREATE DATABASE bare;
	CREATE ROLE stranger LOGIN;
	SELECT rag_create_collection('vectors', dimensions => 2);});
my $user = getpwuid $<;
$ENV{PYTHONPATH} = $source;
$ENV{PGHOST} = $node->host;
$ENV{PGPORT} = $node->port;
$ENV{PGUSER} = $user;
$ENV{PGDATABASE} = 'postgres';

# Returns what a program prints after it has connected.
sub output
{
	my ($program) = @_;
	my $file = temp_folder() . '/program.py';
	write_file($file, "import asyncio\nfrom rag_postgresql import *\n$program");
	return scalar qx{python3 $file 2>&1};
}

is(output(<<'PYTHON'), "added\nnote:keys 1\n", 'a document is added and found');
rag = connect()
print(rag.add("Keys are rotated every 90 days.", uri="note:keys")[0].action)
for hit in rag.search("how often are keys replaced?"):
    print(hit.uri, hit.rank)
PYTHON

is(output(<<'PYTHON'), "2\na {'n': 1}\n1\n[2]\n1 0\n", 'chunks are written, found and deleted');
rag = connect()
print(rag.upsert([Chunk("a", "One.", {"n": 1}, [1, 0]), Chunk("b c", "Two.", {"n": 2}, [0, 1])],
                 "vectors"))
(hit,) = rag.search(None, "vectors", embedding=[1, 0.1], top_k=1)
print(hit.id, hit.metadata)
print(rag.delete("vectors", ids=["a", "missing"]))
print(rag.values("n", "vectors"))
print(rag.delete("vectors", filter={"n": 2}), rag.count("vectors"))
PYTHON

is(output(<<'PYTHON'), "note:keys\nnote:keys\n", 'two event loops use one client');
rag = AsyncRag()
async def search():
    for hit in await rag.search("keys"):
        print(hit.uri)
asyncio.run(search())
asyncio.run(search())
PYTHON

like(output(<<'PYTHON'), qr/ExtensionMissing: .*"bare".* run: CREATE EXTENSION rag$/m,
connect("dbname=bare")
PYTHON
	'a database without the extension is named');

like(output(<<'PYTHON'), qr/NotAllowed: .*GRANT rag_reader TO stranger\.$/m,
connect("user=stranger").search("keys")
PYTHON
	'a missing right is named');

$node->stop;
done_testing();
