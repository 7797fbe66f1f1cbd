-- What do the best customers spend on frequently sold items by catalog and on the web?
WITH frequent AS (
  SELECT ss_item_sk AS item_sk
  FROM store_sales
  JOIN date_dim ON d_date_sk = ss_sold_date_sk
  WHERE d_year IN (2000, 2001)
  GROUP BY ss_item_sk
  HAVING count(*) > 4
),
bought AS (
  SELECT ss_customer_sk, sum(ss_quantity * ss_sales_price) AS total
  FROM store_sales
  GROUP BY ss_customer_sk
),
best AS (
  SELECT ss_customer_sk AS customer_sk
  FROM bought
  WHERE total > 0.5 * (SELECT max(total) FROM bought WHERE ss_customer_sk IS NOT NULL)
),
remote AS (
  SELECT
    cs_bill_customer_sk AS customer_sk, cs_item_sk AS item_sk, cs_quantity * cs_list_price AS sale
  FROM catalog_sales
  UNION ALL
  SELECT ws_bill_customer_sk, ws_item_sk, ws_quantity * ws_list_price FROM web_sales
)
SELECT c_customer_id, c_last_name, c_first_name, sum(sale) AS sales
FROM remote
JOIN customer ON c_customer_sk = customer_sk
WHERE item_sk IN (SELECT item_sk FROM frequent)
  AND customer_sk IN (SELECT customer_sk FROM best)
GROUP BY c_customer_id, c_last_name, c_first_name
ORDER BY c_customer_id, c_last_name, c_first_name
LIMIT 100
